"""Documents below `operations/` in the bucket: JSON of one form, up to a size."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError


class OperationsDocument(BaseModel):
    """A document that a task writes and another one reads, perhaps in another run. `called` names it in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    called: ClassVar[str] = "document"
    limit_bytes: ClassVar[int] = 8 << 20

    def to_bytes(self) -> bytes:
        """Return the document as UTF-8 JSON."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Return the document in `content`.

        :param name: where it lies.
        :raises UserError: it is invalid, or too large.
        """
        found = f"{len(content)} bytes"
        try:
            if len(content) <= cls.limit_bytes:
                return cls.model_validate_json(content)
        except ValidationError as error:
            found = first_problem(error)
        raise UserError(
            f"{name} is not a valid {cls.called}",
            expected=f"{', '.join(cls.model_fields)}, in at most {cls.limit_bytes} bytes",
            found=found,
            remedy="Find out who wrote it; nothing is deleted by it.",
        )
