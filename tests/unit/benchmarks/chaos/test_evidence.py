from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.chaos.evidence import GUARD, SLACK_S, Evidence, Outage, violations
from benchmarks.chaos.excuses import CLUSTER, ROUTER, Excuse
from benchmarks.chaos.gates import Write
from benchmarks.chaos.plan import DIALECTS, KINDS, Plan, draw
from slipway_core.record.events import EventWriter
from slipway_core.record.kinds import (
    ReleaseFinished,
    ReleaseStarted,
    RolledBack,
    StageStarted,
    WeightIntended,
)
from slipway_sandbox.load.answers import Answer

STABLE, CANDIDATE = "s3://b/models/moody/1/repository", "s3://b/models/moody/2/repository"
LEASE_S = 15.0


def answer(
    at: float, revision: str | None, error: str | None = None, *, protocol: str = "http", took_s: float = 0.01
) -> Answer:
    return Answer(at, at, at + took_s, protocol, revision, error)


def write(resource: str, body: dict[str, Any], at: float = 0.0) -> Write:
    return Write(at, at, "PATCH", resource, body, 200)


def knative(percent: int | None, uri: str | None = None) -> Write:
    model = {} if uri is None else {"model": {"storageUri": uri}}
    return write("inferenceservices", {"spec": {"predictor": {"canaryTrafficPercent": percent, **model}}})


def standard(percent: int | None) -> Write:
    entry = {"trafficPercent": percent, "predictor": {"model": {"storageUri": CANDIDATE}}}
    return write("inferenceservices", {"spec": {"canary": None if percent is None else [entry]}})


BEGUN = knative(20, CANDIDATE)
RENEWED = write("leases", {"spec": {"renewTime": "…"}})


@pytest.fixture
def seen() -> Evidence:
    """A bad candidate that was rolled back, with all promises kept."""
    writer, at = EventWriter("moody-2", "moody", 2), datetime(2026, 1, 1, tzinfo=UTC)
    rolled_back = writer.event(
        3, at, RolledBack(stable_storage_uri=STABLE, candidate_requests=1, candidate_errors=1, weight_0_at=at)
    )
    return Evidence(
        plan=Plan(1, 50.0, (), 1.0),
        lease_s=LEASE_S,
        stable="p-00001",
        stable_uri=STABLE,
        candidate_uri=CANDIDATE,
        candidate="p-00002",
        answers=[answer(1.0, "p-00001"), answer(2.0, "p-00002", "HTTP 500")],
        after=[answer(9.0, "p-00003")],
        writes=[RENEWED, BEGUN],
        events=[
            writer.event(1, at, ReleaseStarted(stable_storage_uri=STABLE)),
            writer.event(2, at, WeightIntended(weight=20, storage_uri=CANDIDATE, stable_storage_uri=STABLE)),
            rolled_back,
            writer.event(4, at, ReleaseFinished(outcome="rolled_back")),
        ],
        uri=STABLE,
        traffic={"p-00003": 100},
        new_revisions=2,
    )


def test_kept_promises_are_no_violation(seen: Evidence) -> None:
    """A candidate's own bad answers within its lease are what a canary is for."""
    assert violations(seen) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"uri": CANDIDATE}, "is live"),
        ({"traffic": {"p-00003": 99, "p-00002": 1}}, "not one revision"),
        ({"after": [answer(9.0, "p-00002")]}, "afterwards 1 of 1"),
        ({"finished": False}, "not ended in time"),
        ({"crashed": 1}, "ended with 1"),
        ({"failed_tasks": ["shift", "restore"]}, "gave up"),
        ({"lease_left": True}, "the lease outlived"),
        ({"lock_left": True}, "the model's lock outlived"),
        ({"lost_safe": False}, "while the task was lost"),
        ({"new_revisions": 3}, "3 new revisions"),
        ({"writes": [RENEWED, BEGUN, knative(0), knative(20)]}, "begun 2 times"),
        ({"writes": [RENEWED, standard(20), standard(0), standard(None), standard(20)]}, "begun 2 times"),
        ({"writes": [RENEWED, *[write("inferenceservices", {})] * 30]}, "30 accepted patches"),
        ({"answers": [answer(1.0, None, "HTTP 503")]}, "1 requests failed"),
        ({"answers": [answer(LEASE_S + SLACK_S + 1, "p-00002")]}, "without a lease"),
        ({"events": []}, "the record is empty"),
    ],
)
def test_a_broken_promise_is_told(seen: Evidence, change: dict[str, Any], told: str) -> None:
    """Each of what must hold is seen to be broken where it is."""
    assert any(told in one for one in violations(replace(seen, **change)))


def test_a_missing_event_is_told(seen: Evidence) -> None:
    """A record with a gap says so."""
    seen.events = [seen.events[0], *seen.events[2:]]
    assert "gaps" in violations(seen)[0]


def test_a_record_without_an_end_is_told(seen: Evidence) -> None:
    """A release that nobody concluded is not over, whoever has the users."""
    seen.events = seen.events[:-1]
    assert violations(seen) == ["the record's last event is rolled_back"]


def test_a_stage_left_open_is_told(seen: Evidence) -> None:
    """Who reads the record would think that it is still under way."""
    writer, at = EventWriter("moody-2", "moody", 2), seen.events[-1].at
    begun = writer.event(4, at, StageStarted(stage="roll_back"))
    seen.events = [*seen.events[:-1], begun, writer.event(5, at, ReleaseFinished(outcome="rolled_back"))]
    assert violations(seen) == ["stages that never ended: roll_back"]


@pytest.mark.parametrize("weights", [[knative(20, CANDIDATE), knative(60)], [standard(20), standard(60)]])
def test_steps_and_a_rollback_are_one_canary(seen: Evidence, weights: list[Write]) -> None:
    """Raising the weight, taking it to 0 and naming the good version again begins nothing."""
    seen.writes = [RENEWED, *weights, knative(0), knative(0, STABLE), knative(None)]
    assert violations(seen) == []


def test_two_rollbacks_in_one_record_are_told(seen: Evidence) -> None:
    """What was done once stands there once."""
    writer, at = EventWriter("moody-2", "moody", 2), seen.events[2].at
    again = writer.event(
        4, at, RolledBack(stable_storage_uri=STABLE, candidate_requests=1, candidate_errors=1, weight_0_at=at)
    )
    seen.events = [*seen.events[:-1], again, writer.event(5, at, ReleaseFinished(outcome="rolled_back"))]
    assert violations(seen) == ["2 events rolled_back"]


@pytest.mark.parametrize(
    ("killed", "led_to", "excused"),
    [
        ("p-00001", "p-00001", True),
        ("p-00002", "p-00001", False),
        (ROUTER, None, True),
        (ROUTER, "p-00001", False),
        (CLUSTER, "p-00001", True),
        (CLUSTER, None, True),
        ("p-00001", None, False),
    ],
)
def test_only_requests_to_what_was_killed_are_excused(
    seen: Evidence, killed: str, led_to: str | None, excused: bool
) -> None:
    """Where a server was killed, no stable version could have answered who was led to it; everybody else it could."""
    seen.excuses = [Excuse(5.0, 5.5, killed)]
    seen.answers = [answer(6.0, led_to, "reset"), answer(7.0, "p-00001")]
    assert (violations(seen) == []) is excused


@pytest.mark.parametrize(
    ("failure", "excused"),
    [
        (answer(4.0, "p-00001", "reset", took_s=0.5), False),
        (answer(4.9, "p-00001", "reset", took_s=0.5), True),
        (answer(6.9, "p-00001", "reset"), True),
        (answer(7.5, "p-00001", "reset"), False),
        (answer(7.5, "p-00001", "reset", protocol="grpc"), True),
        (answer(8.5, "p-00001", "reset", protocol="grpc"), False),
    ],
)
def test_nothing_is_excused_before_the_kill_and_when_it_answers_again(
    seen: Evidence, failure: Answer, excused: bool
) -> None:
    """A request in flight at the kill may fail; each protocol's first good answer ends the excuse for it."""
    seen.excuses = [Excuse(5.0, 5.5, "p-00001")]
    again = [answer(5.1, "p-00001"), answer(7.0, "p-00001"), answer(8.0, "p-00001", protocol="grpc")]
    seen.answers = [answer(4.8, "p-00001", took_s=0.4), failure, *again]
    assert (violations(seen) == []) is excused


@pytest.mark.parametrize(
    ("part", "at", "told"),
    [
        (GUARD, 14.0 + LEASE_S + SLACK_S, False),
        (GUARD, 16.0 + LEASE_S + SLACK_S, True),
        (CLUSTER, 4.0 + LEASE_S + SLACK_S, False),
        (CLUSTER, 6.0 + LEASE_S + SLACK_S, True),
    ],
)
def test_a_guard_that_could_not_look_has_its_time(seen: Evidence, part: str, at: float, told: bool) -> None:
    """One that comes back, after 15 s here, watches for one lease anew; an API away for 5 s stops the lease so long."""
    seen.outages = [Outage(10.0, 15.0, part)]
    seen.answers = [answer(at, "p-00002", "HTTP 500")]
    assert any("without a lease" in one for one in violations(seen)) is told


def test_seeds_in_a_row_meet_every_fault_and_a_seed_is_always_the_same_run() -> None:
    """200 runs leave no kind out, and a run can be repeated."""
    drawn = [draw(seed) for seed in range(200)]
    assert {plan.faults[0].kind for plan in drawn[: len(KINDS)]} == {*KINDS}
    assert {plan.dialect for plan in drawn} == {*DIALECTS}
    assert draw(7) == draw(7)
