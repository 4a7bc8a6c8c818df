"""Pages that people read, made from the Jinja2 templates in `templates/`.

A page is one file. Nothing in it runs and it loads nothing; it has light and dark colors and a form for print.
Every value is escaped, and one that a template expects and does not get is an error. Jinja2 is imported and the
templates are compiled when the first page is made: DAG files that import these modules are parsed often.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from slipway_core.written_numbers import amount, counted, number

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).with_name("templates")


def render_page(template: str, **values: object) -> str:
    """Return the page that a template makes of `values`.

    :raises ValueError: where a value that the template expects is missing.
    """
    from jinja2 import TemplateRuntimeError

    try:
        return _environment().get_template(template).render(**values)
    except TemplateRuntimeError as error:
        raise ValueError(f"{template}: {error}") from error


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "utc": _utc,
        "amount": _amount,
        "counted": counted,
        "figure": figure,
        "number": number,
    }
    return environment


def figure(value: object) -> str:
    """Return a number as it stands among others of its kind: four places after the point; nothing for None."""
    return f"{value:,.4f}" if isinstance(value, float) else "" if value is None else str(value)


def _utc(at: object) -> str:
    """Return an ISO 8601 time in UTC as people write it."""
    return str(at).removesuffix("Z").removesuffix("+00:00").replace("T", " ")


def _amount(value: object) -> str:
    """Return a number with separators for thousands or with six digits that count; anything else as text."""
    return amount(value) if isinstance(value, int | float) else str(value)
