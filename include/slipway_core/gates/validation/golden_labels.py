"""The labels of a golden set, by kind of answer, and its slices: shapes and types, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Kind = Literal[
    "classification", "regression", "text", "vectors", "detections", "segmentation", "ranking", "custom"
]

# By kind: what the labels are called, the kinds of NumPy types that hold them, and how many dimensions they have.
_LABELS: dict[Kind, tuple[str, str, tuple[int, ...]]] = {
    "classification": ("whole numbers", "iu", (1,)),
    "regression": ("numbers", "iuf", (1,)),
    "text": ("texts", "SU", (1,)),
    "vectors": ("whole numbers [rows] (rows that belong together) or vectors [rows, size]", "iuf", (1, 2)),
    "detections": ("boxes [rows, boxes, 5]: x1, y1, x2, y2, class", "iuf", (3,)),
    "segmentation": ("classes [rows, height, width]", "iu", (3,)),
    "ranking": ("relevance [rows], or [rows, documents] with NaN behind the last document", "iuf", (1, 2)),
    "custom": ("numbers or texts [rows, …]", "biufSU", (1, 2, 3, 4, 5)),
}
_PLAIN: frozenset[Kind] = frozenset(("classification", "regression", "text"))
# Shorter lists are filled up with NaN.
_PADDED: frozenset[Kind] = frozenset(("detections", "ranking", "custom"))
OPTIONAL_LABELS: frozenset[Kind] = frozenset(("vectors", "detections", "segmentation", "ranking", "custom"))
"""Kinds that can be compared with the stable version's answers alone."""

PARTS_LIMIT = 200
"""Into so many parts slices may divide a golden set."""


def labels_in_words(kind: Kind) -> str:
    """Say what the labels of a kind are."""
    words = _LABELS[kind][0]
    return f"{words} [rows]" if kind in _PLAIN else words


def label_problems(name: str, labels: Array, kind: Kind) -> list[str]:
    """Return what is wrong with the labels, in words."""
    words, kinds, dimensions = _LABELS[kind]
    if labels.ndim not in dimensions:
        return [f"`{name}` has shape {list(labels.shape)}, not {'[rows]' if kind in _PLAIN else words}"]
    if labels.dtype.kind not in kinds:
        return [f"`{name}` holds {labels.dtype}, not {words}"]
    if kind == "vectors" and (labels.ndim == 1) != (labels.dtype.kind in "iu"):
        return [f"`{name}` holds {labels.dtype} of shape {list(labels.shape)}, not {words}"]
    if kind == "detections" and labels.shape[2] != 5:
        return [f"`{name}` has shape {list(labels.shape)}, not {words}"]
    if labels.dtype.kind == "f" and kind not in _PADDED and not np.isfinite(labels).all():
        return [f"`{name}` holds values that are not finite"]
    return [] if labels.shape[0] else [f"`{name}` has no rows"]


def slice_problems(slices: Mapping[str, Array], rows: int | None) -> list[str]:
    """Return what is wrong with the arrays that say to which part of the data a row belongs, in words."""
    problems = []
    for name, values in slices.items():
        if values.ndim != 1 or (rows is not None and values.shape[0] != rows):
            problems.append(f"the slices `{name}` have shape {list(values.shape)}, not [rows]")
        elif values.dtype.kind not in "biuSU":
            problems.append(f"the slices `{name}` hold {values.dtype}, not whole numbers or texts")
        elif len(np.unique(values)) > PARTS_LIMIT:
            problems.append(f"the slices `{name}` have more than {PARTS_LIMIT} parts")
    return problems


def in_label_type(labels: Array, kind: Kind) -> Array:
    """Return the labels in the type that the scores reckon with."""
    if kind == "custom":
        return labels
    if kind == "text":
        texts = [
            text.decode(errors="replace") if isinstance(text, bytes) else text for text in labels.tolist()
        ]
        return np.asarray(texts, dtype=object)
    whole = kind in ("classification", "segmentation") or (kind == "vectors" and labels.ndim == 1)
    return labels.astype(np.int64 if whole else np.float64)
