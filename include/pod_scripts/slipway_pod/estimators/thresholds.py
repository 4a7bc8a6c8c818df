"""Thresholds of trees, which libraries keep in double precision and ONNX in single precision.

A row in single precision that lies at a threshold goes left by `x <= threshold`. Rounded to the nearest number, a
threshold may come to lie below or above such a row, which then gets another leaf: no matter of tolerance, since leaves
differ by any amount. Measurements with few decimals often lie there, for a threshold is the middle of two of them.
"""

from __future__ import annotations

import copy
from typing import Any


def single_precision(thresholds: Any) -> Any:
    """Return for each threshold the largest number of single precision that is not above it, as float64.

    For every x of single precision, `x <= threshold` and `x <= single_precision(threshold)` say the same.
    """
    import numpy as np

    exact = np.asarray(thresholds, np.float64)
    with np.errstate(over="ignore"):
        nearest = exact.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > exact, below, nearest).astype(np.float64)


def lightgbm_text(text: str) -> str:
    """Return the text of a LightGBM Booster with thresholds of single precision.

    `tree_sizes` goes: it counts the bytes of each tree, and without it they are read one after the other.
    """
    lines = (line for line in text.split("\n") if not line.startswith("tree_sizes="))
    return "\n".join(_rounded(line) for line in lines)


def _rounded(line: str) -> str:
    name, is_said, values = line.partition("=")
    if name != "threshold" or not is_said:
        return line
    # Categories are whole numbers here, which stay what they are.
    return "threshold=" + " ".join(repr(one) for one in single_precision(values.split()).tolist())


def histogram_trees(model: Any) -> Any:
    """Return a copy of a scikit-learn model in which all trees of histogram gradient boosting have such thresholds.

    skl2onnx does this for scikit-learn's other trees itself. The boosting may lie inside a pipeline or another
    estimator.
    """
    copied = copy.deepcopy(model)
    left, seen = [copied], set[int]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            left += part.values()
        elif isinstance(part, (list, tuple)):
            left += part
        elif type(part).__module__.partition(".")[0] == "sklearn":
            _round_nodes(part)
            left += getattr(part, "__dict__", {}).values()
    return copied


def _round_nodes(tree: Any) -> None:
    """Round the thresholds of one tree of histogram gradient boosting; anything else is left as it is."""
    fields = getattr(getattr(getattr(tree, "nodes", None), "dtype", None), "names", None) or ()
    if "num_threshold" in fields:
        nodes = tree.nodes.copy()
        nodes["num_threshold"] = single_precision(nodes["num_threshold"])
        tree.nodes = nodes
