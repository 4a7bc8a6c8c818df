"""`target: python`: a model of Triton's Python backend, served as it is."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slipway_core.spec.conversion.conversion import Conversion, Uri, conversion_target


@conversion_target
class PythonConversion(Conversion):
    """A model of Triton's Python backend: checked and passed through as it is."""

    source_formats: ClassVar[tuple[str, ...]] = ("python",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_python.py"
    default_image: ClassVar[str] = "python"
    target: Literal["python"] = "python"
    max_size_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """All files together."""
    try_import: bool = False
    """Import `model.py` in the pod, which runs its module-level code; the image must hold what it imports.
    Otherwise none of it is run before staging.
    """

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return the size limit, and whether `model.py` is imported."""
        return [
            "--max-size-mib",
            str(self.max_size_mib),
            *(["--try-import"] if self.try_import else []),
        ]
