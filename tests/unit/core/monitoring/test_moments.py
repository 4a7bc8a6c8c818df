"""What Airflow's metrics are told of a release, and that no tag has more values than people can count."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import pytest

from slipway_core.canary.verdict import Status
from slipway_core.monitoring.moments import (
    CONCLUDED,
    DURATION,
    EVIDENCE,
    LEAD_TIME,
    MOMENTS,
    OBSERVED,
    RECOVERY,
    ROLLBACKS,
    STAGES,
    VERDICTS,
    WINDOWS,
    Measurement,
    measurements_of,
    measurements_of_end,
)
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    StageFinished,
    UnknownEvent,
    WindowJudged,
)
from tests.support.record.releases import V3, WRITER, at, rolled_back_release


def window(**verdict: object) -> tuple[Measurement, ...]:
    """Return what is told of a window with that verdict."""
    data = WindowJudged(verdict=dict(verdict), candidate_requests=1, candidate_errors=0, first_bad_at=None)
    return measurements_of(WRITER.event(1, at(0), data))


def test_the_events_of_a_release_are_counted_with_their_words() -> None:
    """Each event is told once, under its model; what has no metric tells nothing."""
    told = [one for event in rolled_back_release() for one in measurements_of(event)]
    assert {one.tags["model"] for one in told} == {"digits"}
    assert [one.tags for one in told if one.moment is ROLLBACKS] == [{"model": "digits", "by": "judge"}]
    assert [one.value for one in told if one.moment is OBSERVED] == [0.05, 0.5, 0.0]
    assert len([one for one in told if one.moment is WINDOWS]) == 2
    assert measurements_of(WRITER.event(1, at(0), UnknownEvent("later", {}))) == ()


def test_a_rolled_back_release_tells_how_long_users_met_the_fault() -> None:
    """Since the first bad answer, and since the decision; and there is no candidate any more."""
    told = measurements_of_end(fold(rolled_back_release()))
    found = {(one.moment.name, one.tags.get("since", "")): one.value for one in told}
    assert found[RECOVERY.name, "first_bad_answer"] == 3500.0
    assert found[RECOVERY.name, "decision"] == 1500.0
    assert found[OBSERVED.name, ""] == 0
    assert found[DURATION.name, ""] == 32_000.0
    assert [one.tags for one in told if one.moment is CONCLUDED] == [
        {"model": "digits", "outcome": "rolled_back"}
    ]


def test_a_promoted_release_tells_its_lead_time() -> None:
    """From landed to promoted; where nobody knows when it landed, there is none."""
    events = [
        WRITER.event(1, at(60), ReleaseStarted(landed_at=at(0))),
        WRITER.event(2, at(100), Promoted(storage_uri=V3)),
        WRITER.event(3, at(101), ReleaseFinished(outcome="promoted")),
    ]
    state = fold(events)
    assert [one.value for one in measurements_of_end(state) if one.moment is LEAD_TIME] == [101_000.0]
    unknown = measurements_of_end(replace(state, landed_at=None))
    assert [one for one in unknown if one.moment is LEAD_TIME] == []


def test_an_open_release_has_no_end_to_tell() -> None:
    """Nothing is told before there is an outcome."""
    assert measurements_of_end(fold([WRITER.event(1, at(0), ReleaseStarted())])) == ()


def test_a_word_that_is_not_ours_makes_no_new_series() -> None:
    """What stands in a record may be written by another version: a tag says `other` then."""
    (rollback,) = measurements_of(
        WRITER.event(1, at(0), RollbackStarted(reason="x", by="somebody new", stable_storage_uri=None))
    )
    assert rollback.tags["by"] == "other"
    (stage,) = measurements_of(WRITER.event(1, at(0), StageFinished(stage="convert-a100", outcome="odd")))
    assert (stage.moment, stage.tags["stage"], stage.tags["outcome"]) == (STAGES, "convert", "other")
    assert window(status=7)[0].tags["verdict"] == "other"


@pytest.mark.parametrize("evidence", [None, "much", True, float("inf"), float("nan")])
def test_evidence_that_is_no_number_is_not_told(evidence: object) -> None:
    """The window is counted all the same."""
    told = window(status="pass", statistics={"total_evidence": evidence})
    assert [one.moment for one in told] == [WINDOWS]


def test_evidence_is_told() -> None:
    """It is what the judge has summed up."""
    told = window(status="fail", statistics={"total_evidence": 140.5})
    assert [(one.moment, one.value) for one in told if one.moment is EVIDENCE] == [(EVIDENCE, 140.5)]


def test_the_verdicts_are_the_judges() -> None:
    """A verdict that the judge comes to is a tag, and none is `other`."""
    assert get_args(Status) == VERDICTS


def test_names_are_those_that_airflow_takes() -> None:
    """Lower case with dots and underscores; a timer is in milliseconds and says so; no name is there twice."""
    names = [moment.name for moment in MOMENTS]
    assert len(set(names)) == len(names)
    for moment in MOMENTS:
        assert re.fullmatch(r"slipway\.[a-z0-9_]+", moment.name)
        assert moment.name.endswith("_ms") == (moment.kind == "timer")
