"""Documents of a published version, as they lie in the bucket: JSON of one model, up to a size."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError

M = TypeVar("M", bound=BaseModel)


def parse_document(
    model: type[M], content: bytes, *, limit_bytes: int, what: str, expected: str, remedy: str
) -> M:
    """Return the document in `content`.

    :param limit_bytes: a larger document is not parsed.
    :param what: the first sentence of the error, which names the document.
    :param expected: the fields that the document has.
    :raises UserError: it is too large, or not JSON of this model.
    """
    if len(content) > limit_bytes:
        found = f"{len(content)} bytes"
    else:
        try:
            return model.model_validate_json(content)
        except ValidationError as error:
            found = first_problem(error)
    raise UserError(what, expected=f"{expected}, in at most {limit_bytes} bytes", found=found, remedy=remedy)
