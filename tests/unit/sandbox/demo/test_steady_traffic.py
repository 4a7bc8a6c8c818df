"""The line that the clients of a sample print."""

from __future__ import annotations

from slipway_sandbox.demo.counts import Snapshot
from slipway_sandbox.demo.steady_traffic import traffic_summary


def test_the_line_says_which_version_answered() -> None:
    """By version, with failures and wrong answers apart."""
    seen = Snapshot(1.0, 1200, 3, 2, {"http": 1200}, {"1": 900, "2": 297}, {})
    assert traffic_summary(seen) == "1,200 requests: 900 by version 1, 297 by version 2; 3 failed, 2 wrong"


def test_without_an_answer_it_says_why() -> None:
    """Before the first version is live nobody answers."""
    assert traffic_summary(Snapshot(0.0, 0, 0, 0, {}, {}, {})).startswith("no answer yet")
