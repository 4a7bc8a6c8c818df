"""The examples on the validation page: the golden rows that are worth a look, as each kind of answer is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from include.model_release.reports.page_style import text

EXAMPLES_STYLE = "td.said { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 10rem; }\n"


@dataclass(frozen=True)
class _Table:
    """What a kind shows: in which order, and the columns as (heading, key, whether it is a number)."""

    order: str
    columns: tuple[tuple[str, str, bool], ...]


_TABLES = {
    "classification": _Table(
        "Wrong answers, the surest first, then rows on which the two versions differ.",
        (
            ("Golden row", "row", True),
            ("Right", "label", True),
            ("Answered", "predicted", True),
            ("Score", "confidence", True),
        ),
    ),
    "regression": _Table(
        "The largest errors.",
        (
            ("Golden row", "row", True),
            ("Right", "label", True),
            ("Answered", "predicted", True),
            ("Error", "error", True),
        ),
    ),
    "text": _Table(
        "The answers least like the golden ones, then those least like the stable version's.",
        (
            ("Golden row", "row", True),
            ("Asked", "asked", False),
            ("Golden answer", "label", False),
            ("Answered", "predicted", False),
            ("Score", "score", True),
        ),
    ),
}


def examples_section(kind: str, examples: Sequence[Mapping[str, Any]], stable: object) -> str:
    """Return the section about a report's `worst`, or nothing where there is none.

    `kind` is the report's; one that is not known is shown as a classification.
    """
    if not examples:
        return ""
    table = _TABLES.get(kind, _TABLES["classification"])
    columns = table.columns
    if any(example.get("stable") is not None for example in examples):
        columns = (*columns, (f"Version {stable}", "stable", kind != "text"))
    heads = "".join(
        f"<th{' class=num' if numeric else ''}>{text(heading)}</th>" for heading, _, numeric in columns
    )
    rows = "".join(
        "<tr>" + "".join(_cell(example, key, numeric) for _, key, numeric in columns) + "</tr>"
        for example in examples
    )
    return (
        f"<section><h2>Answers worth a look</h2><p class=soft>{text(table.order)}</p><div class=wide><table>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def number(value: object) -> object:
    """Return a number as the page shows it."""
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else value


def _cell(example: Mapping[str, Any], key: str, numeric: bool) -> str:
    value, classes = example.get(key), ["num" if numeric else "said"]
    if key == "predicted":
        right = example["score"] == 1 if "score" in example else value == example.get("label")
        classes.append("good" if right else "bad")
    if key in ("predicted", "stable") and (value is None or value == -1):
        # A classifier answers -1 with scores that are no numbers; a regressor may mean it.
        shown: object = "none" if value is None or "error" not in example else number(value)
    else:
        shown = number(value)
    return f"<td class='{' '.join(classes)}'>{text(shown)}</td>"
