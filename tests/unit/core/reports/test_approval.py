from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from slipway_core.record.events import EventWriter
from slipway_core.record.fold import fold
from slipway_core.record.kinds import ReleaseStarted, StageFinished, StageStarted, StepFinished
from slipway_core.reports.approval import approval_body

WRITER = EventWriter("digits-3", "digits", 3)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_person_is_shown_what_the_gates_measured() -> None:
    """Accuracy, latencies beside the stable version's, each finished stage, and where the reports are."""
    events = [
        WRITER.event(1, NOW, ReleaseStarted(stable_storage_uri="s3://b/models/digits/2/repository")),
        WRITER.event(2, NOW, StageStarted(stage="validate")),
        WRITER.event(3, NOW, StageFinished(stage="validate", outcome="passed")),
        WRITER.event(4, NOW, StageStarted(stage="approve")),
    ]
    text = approval_body(
        fold(events),
        evidence_uri="s3://b/evidence/",
        validation={"numbers": {"rows": 360, "accuracy": 0.9722, "agreement": None}},
        benchmark={
            "comparisons": [
                {
                    "figure": "p99 latency",
                    "unit": "ms",
                    "candidate": 5.25,
                    "stable": 5.0,
                    "change_percent": 5.0,
                    "limit": "at most 100 ms",
                    "passed": True,
                }
            ]
        },
    )
    assert "It would replace `s3://b/models/digits/2/repository`." in text
    assert "| validate | passed | 0.0 s |" in text
    assert "approve |" not in text
    assert "360 golden rows: accuracy 0.9722." in text
    assert "| p99 latency | 5.25 ms | 5 | at most 100 ms |" in text
    assert text.endswith("All reports: `s3://b/evidence/`")


def test_a_person_is_told_what_was_not_compared() -> None:
    """A stable version that the gates did not compare with is said once, before the numbers."""
    text = approval_body(
        fold([WRITER.event(1, NOW, ReleaseStarted())]),
        evidence_uri="s3://b/evidence/",
        validation={"not_compared": "version 2 is an engine of old"},
        benchmark={"not_compared": "version 2 is an engine of old"},
    )
    assert text.count("**Not compared with the stable version:** version 2 is an engine of old") == 1


def test_each_kind_of_answer_has_its_figures() -> None:
    """Errors of a regressor and the score of a text model are told like accuracy."""
    state = fold([WRITER.event(1, NOW, ReleaseStarted())])
    numbers = {"rows": 20, "mae": 0.5, "mae_max": 1, "rmse": None, "r2": 0.93, "agreement": 0.9}
    text = approval_body(state, evidence_uri="s3://b/", validation={"numbers": numbers}, benchmark=None)
    assert "20 golden rows: mean absolute error 0.5, R² 0.93, agreement 0.9." in text


def test_before_a_promotion_the_steps_of_the_canary_are_shown() -> None:
    """Each step with its verdict and reason, as the judge gave them."""
    events = [
        WRITER.event(1, NOW, ReleaseStarted()),
        WRITER.event(
            2,
            NOW,
            StepFinished(
                weight=5,
                verdict="pass",
                reason="The bake is over.",
                candidate_requests=70,
                candidate_errors=1,
                seconds=60.0,
            ),
        ),
    ]
    text = approval_body(fold(events), evidence_uri="s3://b/", validation=None, benchmark=None)
    assert text.startswith("Nothing is live yet.")
    assert "| 5 % | pass | 1 of 70 failed | The bake is over. |" in text
    assert "Benchmark" not in text


def test_a_person_is_told_where_the_candidate_can_be_tried() -> None:
    """With a preview its address is in the text; without one nothing is said of it."""
    state = fold([WRITER.event(1, NOW, ReleaseStarted())])
    given: dict[str, Any] = {"evidence_uri": "s3://b/", "validation": None, "benchmark": None}
    url = "http://latest-digits-predictor.models.example.org"
    assert f"`{url}`: try it" in approval_body(state, candidate_url=url, **given)
    assert "try it" not in approval_body(state, **given)
