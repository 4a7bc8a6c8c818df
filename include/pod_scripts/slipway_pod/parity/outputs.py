"""Parity of outputs: one entry in the table for each output of the converted model, and the refusal."""

from __future__ import annotations

import argparse
import math
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.parity.rules import rule_for
from slipway_rules.parity import Rule

WORST_ROWS = 5


def compare_output(name: str, source: Any, converted: Any, rule: Rule) -> dict[str, Any]:
    """Return the entry of one output in the parity table. NaN against a number counts as infinitely far."""
    import numpy as np

    rows = len(source)
    entry: dict[str, Any] = {"output": name, "rows": rows, "measure": rule.measure}
    if source.shape != converted.shape:
        shapes = {"source": f"shape {list(source.shape)}", "converted": f"shape {list(converted.shape)}"}
        entry |= {"max_abs_diff": None, "max_rel_diff": None, "within_share": 0.0, "least_share": 1.0}
        return entry | {"mismatched_rows": rows, "pass": False, "worst": [{"row": 0, **shapes}]}
    a, b = source.reshape(rows, -1), converted.reshape(rows, -1)
    difference, relative, outside = distances(a, b, rule)
    off = {"tolerance": outside.any(axis=1)}
    entry |= {"max_abs_diff": plain(difference.max(initial=0.0))}
    entry |= {"max_rel_diff": plain(relative.max(initial=0.0))}
    entry |= {"within_share": float(1 - off["tolerance"].mean())}
    if a.dtype.kind != "f":
        off["top_k"] = off["tolerance"]
    elif a.shape[1] > 1:
        cosines, first, best = cosine_of_rows(a, b), agrees_in_best(a, b, 1), agrees_in_best(a, b, rule.top_k)
        off |= {"cosine": ~(cosines >= rule.cosine_min), "top_k": ~best}
        entry |= {"cosine_min": plain(cosines.min()), "top_1_agreement": float(first.mean())}
        entry |= {"top_k": rule.top_k, "top_k_agreement": float(best.mean())}
    measure = rule.measure if rule.measure in off else "tolerance"
    wrong, share = off[measure], rule.least_share(measure)
    entry |= {"measure": measure, "least_share": share, "pass": bool(1 - wrong.mean() >= share)}
    worst = worst_rows(a, b, wrong, np.nan_to_num(difference, nan=np.inf)) if wrong.any() else []
    return entry | {"mismatched_rows": int(wrong.sum()), "worst": worst}


def distances(a: Any, b: Any, rule: Rule) -> tuple[Any, Any, Any]:
    """Return absolute and relative difference of each element, and whether it is too large; each (rows, elements).

    The relative one is against |source|, or the absolute tolerance where |source| is smaller. Whole numbers,
    truth values and strings must be equal.
    """
    import numpy as np

    if a.dtype.kind != "f":
        off = a.astype(str) != b.astype(str) if a.dtype.kind in "OSU" else a != b
        return off.astype(np.float64), off.astype(np.float64), off
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Equal infinities and two NaNs are alike; their difference would not be a number.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.maximum(np.abs(a), max(rule.abs_tolerance, float(np.finfo(np.float32).tiny)))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, difference / scale)
        near = difference <= rule.abs_tolerance + rule.rel_tolerance * np.abs(a)
    return difference, relative, ~(same | (near & np.isfinite(difference)))


def cosine_of_rows(a: Any, b: Any) -> Any:
    """Return the cosine similarity of each pair of rows; 1 for equal rows, also for those of zeros."""
    import numpy as np

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / lengths
    return np.where((a == b).all(axis=1), 1.0, np.where(lengths > 0, cosines, 0.0))


def agrees_in_best(a: Any, b: Any, k: int) -> Any:
    """Return whether each of the converted model's `k` best classes is, by the source, among its `k` best; per row.

    Classes that tie in the source may stand for each other.
    """
    import numpy as np

    k = min(k, a.shape[1])
    threshold = np.sort(a, axis=1)[:, -k]
    chosen = np.argsort(-b, axis=1, kind="stable")[:, :k]
    best = (np.take_along_axis(a, chosen, axis=1) >= threshold[:, None]).all(axis=1)
    return best & np.isfinite(b).all(axis=1)


def worst_rows(a: Any, b: Any, off: Any, badness: Any) -> list[dict[str, Any]]:
    """Return the rows that are furthest off, each with its element that is furthest off."""
    import numpy as np

    order = np.argsort(-np.where(off, badness.max(axis=1), -1.0), kind="stable")[:WORST_ROWS]
    worst: list[dict[str, Any]] = []
    for row in (int(row) for row in order if off[row]):
        index = int(np.argmax(badness[row]))
        values = {"source": plain(a[row, index]), "converted": plain(b[row, index])}
        worst.append({"row": row, "index": index, **values})
        if a.dtype.kind == "f" and a.shape[1] > 1:
            worst[-1] |= {"source_best": int(a[row].argmax()), "converted_best": int(b[row].argmax())}
    return worst


def plain(value: Any) -> Any:
    """Return a NumPy scalar as JSON can hold it: not-a-number and infinities become strings."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def require_parity(parity: list[dict[str, Any]], options: argparse.Namespace, other_cause: str = "") -> None:
    """Raise PodError (ParityRefusedError), which names the worst rows, unless every output passes.

    :param other_cause: in words, what else changes the answers, apart from the conversion.
    """
    failed = [entry for entry in parity if not entry["pass"]]
    if not failed:
        return
    wanted = {
        "tolerance": "a difference of at most {0.abs_tolerance:g} + {0.rel_tolerance:g} × |source|",
        "cosine": "a cosine similarity of at least {0.cosine_min:g}",
        "top_k": "the same best {0.top_k}",
    }
    expected, found = [], []
    for entry in failed:
        output, worst = entry["output"], entry["worst"][:3]
        limit = wanted[entry["measure"]].format(rule_for(output, options))
        expected.append(f"{output}: {limit} in {100 * entry['least_share']:g} % of the rows")
        counts = f"{entry['mismatched_rows']} of {entry['rows']} rows off, by up to {entry['max_abs_diff']}"
        rows = (f"row {row['row']}: expected {row['source']}, found {row['converted']}" for row in worst)
        found.append(f"{output}: {counts} ({'; '.join(rows)})")
    what = "The converted model does not answer as its source does"
    # In full precision there is none that is higher.
    lowered = "" if options.precision == "fp32" else "use a higher precision, or "
    remedy = f"look at the worst rows; {lowered}widen conversion.parity if it is harmless"
    texts = {"expected": "; ".join(expected), "found": "; ".join([*found, *filter(None, (other_cause,))])}
    raise PodError("ParityRefusedError", what, **texts, remedy=remedy)
