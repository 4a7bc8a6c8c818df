"""Documents that are taken apart key by key: one of another form is told as an error of the project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from include.model_release.errors import SlipwayError, UserError

_FOUND_LIMIT = 200
_OTHER_FORM = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)


@contextmanager
def form_of(name: str, error_class: type[SlipwayError] = UserError) -> Iterator[None]:
    """Raise `error_class` where what is done inside meets a document of another form; `name` is what it is called.

    For documents that only tell people something: they are written here, and what is wrong with one is wrong as a
    whole. What decides something is read field by field.
    """
    try:
        yield
    except _OTHER_FORM as error:
        raise error_class(
            f"{name} has another form than it should",
            expected="a document as this version of the project writes it",
            found=f"{type(error).__name__}: {error}"[:_FOUND_LIMIT],
            remedy="See who wrote it; make it again from what it was made of.",
        ) from error
