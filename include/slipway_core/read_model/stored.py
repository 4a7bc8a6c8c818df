"""A document of the read model as it lies in the bucket: JSON of one form, up to a size, hostile until it is parsed."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError
from slipway_rules.text_forms import VERSION_LIMIT

FORMAT: Literal[1] = 1
LINE_LIMIT = 1000

Line = Annotated[str, Field(max_length=LINE_LIMIT)]
ModelName = Annotated[str, Field(min_length=1, max_length=50)]
Version = Annotated[int, Field(ge=1, le=VERSION_LIMIT)]
Count = Annotated[int, Field(ge=0, le=10**18)]
Percent = Annotated[int, Field(ge=0, le=100)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]


class Part(BaseModel):
    """A part of a document. A field that a later version of Slipway has added is ignored."""

    # Built when one is first used: DAG files import them, and are read often.
    model_config = ConfigDict(
        frozen=True, extra="ignore", protected_namespaces=(), allow_inf_nan=False, defer_build=True
    )


class ReadModelDocument(Part):
    """A document of the read model. `called` names it in errors, `format` changes with what its fields mean."""

    called: ClassVar[str] = "document"
    limit_bytes: ClassVar[int] = 8 << 20

    format: Literal[1] = FORMAT

    def to_bytes(self) -> bytes:
        """Return the document as UTF-8 JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Return the document in `content`.

        :param name: where it lies.
        :raises UserError: it does not have this format, or is too large.
        """
        found = f"{len(content)} bytes"
        try:
            if len(content) <= cls.limit_bytes:
                return cls.model_validate_json(content)
        except ValidationError as error:
            found = first_problem(error)
        raise UserError(
            f"{name} is not a valid {cls.called}",
            expected=f"format {FORMAT}, in at most {cls.limit_bytes} bytes",
            found=found,
            remedy="nothing: it is made again from the record",
        )


def cut(text: str | None, limit: int = LINE_LIMIT) -> str:
    """Return the text in one line, shortened to what a document holds; "" for None."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
