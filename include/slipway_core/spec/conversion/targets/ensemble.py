"""`target: ensemble`: an ensemble and its members, served as they are."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slipway_core.spec.conversion.conversion import Conversion, Uri, conversion_target


@conversion_target
class EnsembleConversion(Conversion):
    """An ensemble and its members: checked as one unit and passed through."""

    source_formats: ClassVar[tuple[str, ...]] = ("repository",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_ensemble.py"
    default_image: ClassVar[str] = "ensemble"
    target: Literal["ensemble"] = "ensemble"
    max_size_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    """All files of all members together."""

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return the size limit."""
        return ["--max-size-mib", str(self.max_size_mib)]
