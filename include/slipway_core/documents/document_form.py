"""Documents that others wrote: what is wrong with one, in the words of the project's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slipway_core.errors import SlipwayError, UserError

if TYPE_CHECKING:
    from pydantic import ValidationError

_FOUND_LIMIT = 200
_OTHER_FORM = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a document with its place; both are cut, as there may be thousands of long ones."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole"
    return f"at {place[:_FOUND_LIMIT]}: {first['msg'][:_FOUND_LIMIT]}"


@contextmanager
def format_errors(name: str, error_class: type[SlipwayError] = UserError) -> Iterator[None]:
    """Raise `error_class` where the block reads a key or a type that the document does not have.

    For documents that this project writes and that only inform people. A document that decides something is read
    field by field, with a typed model.

    :param name: what the error calls the document.
    :raises SlipwayError: the document has another form; the class is `error_class`.
    """
    try:
        yield
    except _OTHER_FORM as error:
        raise error_class(
            f"{name} has another form than it should",
            expected="a document as this version of the project writes it",
            found=f"{type(error).__name__}: {error}"[:_FOUND_LIMIT],
            remedy="Find out who wrote it, and generate it again.",
        ) from error
