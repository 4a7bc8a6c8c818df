"""The examples on the validation page: the golden rows that are worth a look, as each kind of answer is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_core.reports.html_page import figure

# What a kind shows: in which order, and the columns as (heading, key); a heading that ends with # is one of numbers.
_TABLES = {
    "classification": (
        "Wrong answers, the surest first, then rows on which the two versions differ.",
        (("Golden row#", "row"), ("Right#", "label"), ("Answered#", "predicted"), ("Score#", "confidence")),
    ),
    "regression": (
        "The largest errors.",
        (("Golden row#", "row"), ("Right#", "label"), ("Answered#", "predicted"), ("Error#", "error")),
    ),
    "text": (
        "The answers least like the golden ones, then those least like the stable version's.",
        (
            ("Golden row#", "row"),
            ("Asked", "asked"),
            ("Golden answer", "label"),
            ("Answered", "predicted"),
            ("Score#", "score"),
        ),
    ),
    "vectors": (
        "The vectors furthest from the stable version's, else those furthest from their label.",
        (
            ("Golden row#", "row"),
            ("Cosine to stable's#", "cosine"),
            ("Length#", "length"),
            ("Right#", "right"),
        ),
    ),
    "detections": (
        "The images whose objects are least those of the labels, else those of the stable version.",
        (
            ("Golden row#", "row"),
            ("Objects#", "objects"),
            ("As the labels (F1)#", "found"),
            ("As stable (F1)#", "agrees"),
        ),
    ),
    "segmentation": (
        "The masks least like the labels, else least like the stable version's.",
        (
            ("Golden row#", "row"),
            ("IoU with the label#", "iou"),
            ("Right pixels#", "pixel_accuracy"),
            ("IoU with stable#", "agrees"),
        ),
    ),
    "custom": (
        "The rows with the worst of the first score that has a limit.",
        (("Golden row#", "row"), ("Label", "label"), ("Figure", "figure"), ("Score#", "score")),
    ),
    "ranking": (
        "The questions with the least gain, else those with another order than the stable version's.",
        (("Question#", "row"), ("NDCG#", "ndcg"), ("First documents as stable#", "agrees")),
    ),
}


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
        """Return the table for the report's `kind`; one that is not known is shown as a classification."""
        order, columns = _TABLES.get(kind, _TABLES["classification"])
        if any(example.get("stable") is not None for example in examples):
            columns = (*columns, (f"Version {stable}{'' if kind == 'text' else '#'}", "stable"))
        rows = tuple(
            tuple(_cell(example, key, numeric=heading.endswith("#")) for heading, key in columns)
            for example in examples
        )
        return cls(order, tuple(heading for heading, _ in columns), rows)


def _cell(example: Mapping[str, Any], key: str, *, numeric: bool) -> Cell:
    value, classes = example.get(key), "num" if numeric else "said"
    if key == "predicted":
        right = example["score"] == 1 if "score" in example else value == example.get("label")
        classes += " good" if right else " bad"
    # A classifier answers -1 with scores that are no numbers; a regressor may mean it.
    missing = value is None or (value == -1 and "error" not in example)
    return Cell("none" if key in ("predicted", "stable") and missing else figure(value), classes)
