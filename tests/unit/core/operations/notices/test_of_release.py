"""The numbers of a release's notices: as the judge had them, and none where it had none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.metrics.samples import Sample, Window
from slipway_core.operations.notices.of_release import (
    GUARD,
    inconclusive_after_s,
    last_verdict,
    lease_lost_notice,
    outcome_notice,
    verdict_facts,
)
from slipway_core.record.events import Event
from slipway_core.record.kinds import WindowJudged
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.lease import Lease
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

AT = datetime(2026, 11, 22, 11, 0, tzinfo=UTC)


def judged(release_id: str = "digits-3", seq: int = 1, verdict: dict[str, Any] | None = None) -> Event:
    """The event of a window in which the candidate failed more often and was slower."""
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(20, 60)
    window = Window(
        seconds=10,
        stable=Sample(1000, 4, {10.0: 900, 20.0: 100}),
        candidate=Sample(250, 13, {10.0: 100, 50.0: 150}),
    )
    said = judge.observe(window).to_dict() if verdict is None else verdict
    data = WindowJudged(verdict=said, candidate_requests=250, candidate_errors=13, first_bad_at=None)
    return Event(seq, AT, release_id, "digits", 3, data)


def facts(events: list[Event], **state: Any) -> dict[str, str]:
    """The facts of how a release ended."""
    told = ReleaseState(
        **{"model": "digits", "version": 3, "release_id": "digits-3", "outcome": "rolled_back"} | state
    )
    notice = outcome_notice(told, events, at=AT, dag_id="model_release")
    assert notice is not None
    return {fact.name: fact.value for fact in notice.facts}


def test_a_rollback_is_told_with_the_judges_numbers() -> None:
    """Weight, errors of both, p99 of both, and the evidence against its threshold."""
    said = facts([judged()], triggered_by="anna")
    assert said["started by"] == "anna"
    assert said["weight"] == "20 %"
    assert said["errors"] == "candidate 5.2 % (13 of 250), stable 0.4 % (4 of 1,000)"
    assert said["p99, last window"].startswith("candidate ")
    assert " ms, stable " in said["p99, last window"]
    assert said["evidence against it"].endswith("; the candidate fails at 100")


def test_how_long_users_could_meet_the_fault_is_told() -> None:
    """From the first bad answer to weight 0."""
    said = facts([], first_bad_at=AT, weight_0_at=AT.replace(second=7))
    assert said["first bad answer to weight 0"] == "7 s"


def test_whether_anybody_is_still_on_it_is_told_as_far_as_it_was_seen() -> None:
    """The message itself speaks of new requests alone."""
    said = facts([], drained="pods_ended", drain_seconds=36.4)
    assert said["what was open on it"].startswith(
        "The candidate has no users: 36 s after weight 0 its pods were gone"
    )
    said = facts([], drained="unseen", drain_seconds=36.4)
    assert "is unknown" in said["what was open on it"]
    assert "what was open on it" not in facts([])


@pytest.mark.parametrize("verdict", [{}, {"status": "fail", "reason": 3}, {"statistics": []}])
def test_a_verdict_that_cannot_be_read_costs_only_its_numbers(verdict: dict[str, Any]) -> None:
    """A record of another version, or a broken one: people are told all the same."""
    assert facts([judged(verdict=verdict)]) == {}


def test_another_releases_windows_are_not_told() -> None:
    """A version may have been tried before."""
    assert last_verdict([judged("digits-3-before")], "digits-3") is None
    assert verdict_facts(None) == []


def test_a_rollback_that_has_not_ended_asks_for_attention() -> None:
    """The release is over and the traffic may not be where it should."""
    assert "look at the InferenceService" in facts([], outcome="failed", rolling_back=True)["attention"]


def test_what_is_under_way_is_no_end() -> None:
    """Nothing is told of it."""
    state = ReleaseState(model="digits", version=3, release_id="digits-3")
    assert outcome_notice(state, [], at=AT, dag_id="model_release") is None


@pytest.mark.parametrize(
    ("bake_s", "max_bake_s", "expected_s"),
    [(60, 3600, 120), (60, 100, 80), (300, 300, 300)],
    ids=["twice the bake", "half of the way to the limit", "the limit is the bake"],
)
def test_a_step_is_long_when_it_outlasts_its_bake(bake_s: int, max_bake_s: int, expected_s: float) -> None:
    """And never only when it is over."""
    plan = CanaryPlan(steps=(RolloutStep(weight=20, bake_s=bake_s),), window_s=10, max_bake_s=max_bake_s)
    assert inconclusive_after_s(bake_s, plan) == expected_s


@pytest.mark.parametrize(
    ("candidate_uri", "version"),
    [("s3://b/models/digits/7/repository", 7), (f"s3://b/models/digits/{10**30}/repository", 3), ("none", 3)],
)
def test_a_lease_that_names_nonsense_ends_no_rollback(candidate_uri: str, version: int) -> None:
    """The notice of a lost lease names the lease's version, or, where that can be none, the release's own."""
    lease = Lease("digits", "serving", "digits", "somebody", 60, candidate_uri=candidate_uri, ended_by=GUARD)
    notice = lease_lost_notice("digits", 3, lease, at=AT, dag_id="model_release")
    assert notice is not None
    assert notice.version == version
