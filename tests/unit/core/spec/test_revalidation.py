"""The release file's `revalidation`: its defaults, its limits, and where recorded requests may lie."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec

FILE = "model: digits\nsource: {format: onnx}\nrevalidation: {%s}\n"


def test_by_default_it_looks_and_tells() -> None:
    """Nothing goes back by itself, and no inputs are compared."""
    asked = parse_release_spec("model: digits\nsource: {format: onnx}\n", "a file").revalidation
    assert (asked.enabled, asked.on_drift, asked.recorded_requests) == (True, "notify", None)


@pytest.mark.parametrize(
    "text",
    [
        "on_drift: rollback",
        "golden_rows: 0",
        "golden_rows: 1001",
        "agreement_min: 1.5",
        "latency_ratio_max: 0.5",
        "unchecked_runs: 0",
        "tolerance: 3",
        "recorded_requests: recorded/digits",
        "recorded_requests: models/digits/",
        "recorded_requests: /recorded/",
        'recorded_requests: ""',
    ],
)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    """A limit of no sense, an unknown key, and a prefix of Slipway's own or of one object."""
    with pytest.raises(SpecError, match="revalidation"):
        parse_release_spec(FILE % text, "a file")


def test_recorded_requests_are_a_prefix() -> None:
    """One that ends with a slash."""
    spec = parse_release_spec(FILE % "recorded_requests: recorded/digits/", "a file")
    assert spec.revalidation.recorded_requests == "recorded/digits/"
