"""Documents that pages are made of."""

from __future__ import annotations

from typing import Any

VALIDATION: dict[str, Any] = {
    "model": "digits",
    "version": 3,
    "stable_version": 2,
    "created_at": "2026-11-21T03:00:00+00:00",
    "kind": "classification",
    "outcome": "fail",
    "reasons": ["accuracy is at least 90.0%"],
    "numbers": {
        "rows": 360,
        "accuracy": 0.85,
        "accuracy_min": 0.9,
        "agreement": 0.93,
        "agreement_min": 0.9,
        "not_finite_rows": 0,
    },
    "expectations": [
        {
            "type": "expect_x",
            "kwargs": {},
            "meaning": "every row was answered",
            "success": True,
            "observed": 360,
        },
        {
            "type": "expect_y",
            "kwargs": {},
            "meaning": "accuracy is enough",
            "success": False,
            "observed": 0.85,
        },
    ],
    "confusion": {"classes": [0, 1], "counts": [[170, 10], [0, 180]]},
    "worst": [{"row": 7, "label": 1, "predicted": -1, "confidence": None, "stable": 1}],
    "signature": {"inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 64]}], "outputs": []},
}
SIGNATURE: dict[str, Any] = {
    "model": "digits",
    "version": 3,
    "stable_version": 2,
    "created_at": "2026-11-21T03:00:00+00:00",
    "outcome": "fail",
    "reasons": ["input `x` has another datatype"],
    "found": "FP64",
    "remedy": "Make them equal again.",
    "tensors": [
        {
            "kind": "input",
            "name": "x",
            "stable": {"datatype": "FP32", "shape": [-1, 3], "optional": True},
            "candidate": {"datatype": "FP64", "shape": [-1, 3], "optional": False},
            "same": False,
        },
        {
            "kind": "output",
            "name": "y",
            "stable": None,
            "candidate": {"datatype": "FP64", "shape": [-1, 3], "optional": False},
            "same": False,
        },
    ],
}
