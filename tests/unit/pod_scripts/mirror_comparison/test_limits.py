"""How long the answers of a mirror comparison are waited for, and what none within that time is."""

from __future__ import annotations

from slipway_pod.mirror_comparison.report import ComparisonReport
from slipway_pod.mirror_comparison.requests import Request
from slipway_pod.models.deadlines import LONGEST_S, SLACK
from slipway_pod.models.protocol import Answer

REQUEST = Request(b"{}", (), "/v2/models/m/infer")


def answered(latency_ms: float) -> Answer:
    return Answer({}, "", latency_ms)


def test_a_slow_model_is_given_the_time_that_its_stable_version_needs() -> None:
    """Four pairs at once may be answered one after the other, and the servers answer users besides."""
    report = ComparisonReport(worst_kept=5)
    report.add(REQUEST, answered(2000.0), answered(2000.0), None)
    assert report.limit_s(30.0, at_once=4) == SLACK * 2.0 * 4


def test_a_fast_model_keeps_the_limit_that_was_given() -> None:
    """Nothing is waited for longer because of it."""
    report = ComparisonReport(worst_kept=5)
    report.add(REQUEST, answered(2.0), answered(2.0), None)
    assert report.limit_s(30.0, at_once=4) == 30.0


def test_until_stable_has_answered_nothing_is_cut_short() -> None:
    """A candidate's answers tell nothing of the time that one may take."""
    report = ComparisonReport(worst_kept=5)
    report.add(REQUEST, Answer(None, "time limit", 30_000.0), answered(2.0), None)
    assert report.limit_s(30.0, at_once=4) == LONGEST_S


def test_no_answer_in_time_is_no_different_answer() -> None:
    """It counts as a request on which the candidate failed, for that reason, and never among those that differ."""
    report = ComparisonReport(worst_kept=5)
    report.add(REQUEST, answered(2.0), Answer(None, "time limit", 30_000.0), None)
    told = report.to_json()
    assert (told["counts"]["candidate_failed"], told["counts"]["differ"], told["counts"]["compared"]) == (
        1,
        0,
        0,
    )
    assert told["failures"]["candidate"] == {"time limit": 1}
    assert told["differences"] == []
