"""What lies beside a release file, and what a scorer's pod returns: suites of expectations, figures, scores by row."""

from __future__ import annotations

import hashlib
import io
import json
from functools import cache
from random import Random
from typing import Any

import numpy as np

from benchmarks.fuzz import mutate
from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.gates.validation.scoring.returned import read_returned
from slipway_core.spec.suites.expectations import Expectation
from slipway_core.spec.suites.named_files import parse_suite

_ROWS = 3
_BETWEEN = {"column": "label", "min_value": 0, "max_value": 9, "strict_min": True}
_QUANTILES = {"quantiles": [0.5, 0.95], "value_ranges": [[None, 20], [1, 50.5]]}
_SUITES: tuple[dict[str, Any], ...] = (
    {
        "name": "golden",
        "expectations": [
            {"type": "expect_column_mean_to_be_between", "kwargs": _BETWEEN, "meta": {"policy": "warn"}},
            {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 3}, "severity": "info"},
        ],
        "meta": {"great_expectations_version": "1.24.1"},
    },
    {
        "expectations": [
            {
                "type": "expect_column_quantile_values_to_be_between",
                "kwargs": {"column": "latency_ms", "quantile_ranges": _QUANTILES},
                "policy": "fail",
                "description": "fast enough",
            },
            {
                "type": "expect_column_values_to_be_in_set",
                "kwargs": {"column": "site", "value_set": ["a", 1, True], "mostly": 0.9},
            },
        ]
    },
)


@cache
def _scores() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, margin=np.array([0.5, np.nan, 1.0]))
    return buffer.getvalue()


def _result(scores: bytes) -> dict[str, Any]:
    return {
        "outcome": "pass",
        "error": None,
        "rows": _ROWS,
        "given_sha256": "a" * 64,
        "figures": {"eer": {"value": 4.5, "low": 3.0, "high": 6.0, "samples": 250}, "x": {"value": None}},
        "scores": {"size_bytes": len(scores), "sha256": hashlib.sha256(scores).hexdigest()},
    }


def _read_suite(content: bytes) -> tuple[Expectation, ...]:
    found = parse_suite(content.decode(errors="replace"), "suite.json")
    for one in found:
        if one.as_item()["policy"] not in ("fail", "warn") or not one.meaning:
            raise BrokenPromiseError("an expectation without a policy or words")
    return found


def _changed(rng: Random, _: Any) -> tuple[bytes, bytes]:
    """A result that does not fit its scores, or scores with damaged bytes whose digest the result has."""
    if rng.random() < 0.5:
        return mutated_json(rng, [_result(_scores())]), _scores()
    scores = mutate.some_bytes(rng, [_scores()])
    return json_bytes(_result(scores)), scores


def _read_returned(value: tuple[bytes, bytes]) -> object:
    try:
        result = json.loads(value[0])
    except (ValueError, RecursionError):
        return None  # the store's reader has refused it
    if not isinstance(result, dict):
        return None
    found = read_returned(result, value[1], _ROWS)
    if any(one.shape != (_ROWS,) or np.isinf(one).any() for one in found.scores.values()):
        raise BrokenPromiseError("scores that are not given by row")
    return found


TARGETS = (
    Target(
        "suite",
        lambda: [json_bytes(tree) for tree in _SUITES],
        lambda rng, _: mutated_json(rng, _SUITES),
        _read_suite,
    ),
    Target("scorers_result", lambda: [(json_bytes(_result(_scores())), _scores())], _changed, _read_returned),
)
