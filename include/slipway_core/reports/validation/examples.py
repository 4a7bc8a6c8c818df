"""The examples on the validation page: the golden rows that are worth a look, as each kind of answer is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_core.gates.validation.kind import ExamplesTable, ValidationKind
from slipway_core.kind_registry import KindUnusableError, UnknownKindError
from slipway_core.reports.html_page import figure
from slipway_core.spec.validation import Validation


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and its CSS classes."""

    shown: str
    classes: str


@dataclass(frozen=True)
class Examples:
    """The table of a report's `worst`: its order in words, its heads (# ends those of numbers) and its rows."""

    order: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, kind: str, examples: Sequence[Mapping[str, Any]], stable: object) -> Examples:
        """Return the table as the report's `kind` shows it; of a kind that is not installed here, all that there is."""
        found = known_kind(kind)
        table = _all_of(examples) if found is None else found.examples
        columns = table.columns
        if any(example.get("stable") is not None for example in examples):
            columns = (*columns, (f"Version {stable}{'#' if table.stable_is_number else ''}", "stable"))
        rows = tuple(
            tuple(_cell(example, key, numeric=heading.endswith("#")) for heading, key in columns)
            for example in examples
        )
        return cls(table.order, tuple(heading for heading, _ in columns), rows)


def known_kind(kind: str) -> type[ValidationKind] | None:
    """Return a report's kind of answers; None if it is not installed here, or cannot be used."""
    try:
        found: type[ValidationKind] = Validation.registry.get(kind)
    except (UnknownKindError, KindUnusableError):
        return None
    return found


def _all_of(examples: Sequence[Mapping[str, Any]]) -> ExamplesTable:
    """Return a table of what the examples have, under their own names."""
    keys = dict.fromkeys(key for example in examples for key in example if key != "stable")
    return ExamplesTable("As the scores leave them.", tuple((str(key).capitalize(), key) for key in keys))


def _cell(example: Mapping[str, Any], key: str, *, numeric: bool) -> Cell:
    value, classes = example.get(key), "num" if numeric else "said"
    if key == "predicted":
        right = example["score"] == 1 if "score" in example else value == example.get("label")
        classes += " good" if right else " bad"
    # A classifier answers -1 with scores that are no numbers; a regressor may mean it.
    missing = value is None or (value == -1 and "error" not in example)
    return Cell("none" if key in ("predicted", "stable") and missing else figure(value), classes)
