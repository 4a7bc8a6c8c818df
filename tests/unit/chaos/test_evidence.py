from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from include.model_release.record import EventWriter
from include.sandbox.lab.answers import Answer
from tests.chaos.evidence import SLACK_S, Evidence, Span, violations
from tests.chaos.gates import Write
from tests.chaos.plan import KINDS, Plan, draw

STABLE, CANDIDATE = "s3://b/models/moody/1/repository", "s3://b/models/moody/2/repository"
LEASE_S = 15.0


def answer(at: float, revision: str | None, error: str | None = None) -> Answer:
    return Answer(at, at, at + 0.01, "http", revision, error)


def write(resource: str, body: dict[str, Any], at: float = 0.0) -> Write:
    return Write(at, at, "PATCH", resource, body, 200)


BEGUN = write("inferenceservices", {"spec": {"predictor": {"model": {"storageUri": CANDIDATE}}}}, 0.5)
RENEWED = write("leases", {"spec": {"renewTime": "…"}})


@pytest.fixture
def seen() -> Evidence:
    """A bad candidate that was rolled back, with all promises kept."""
    writer, at = EventWriter("moody-2", "moody", 2), datetime(2026, 1, 1, tzinfo=UTC)
    rolled_back = writer.rolled_back(
        3, at, stable_storage_uri=STABLE, candidate_requests=1, candidate_errors=1, weight_0_at=at
    )
    return Evidence(
        plan=Plan(1, 50.0, (), 1.0),
        lease_s=LEASE_S,
        stable="p-00001",
        stable_uri=STABLE,
        candidate_uri=CANDIDATE,
        answers=[answer(1.0, "p-00001"), answer(2.0, "p-00002", "HTTP 500")],
        after=[answer(9.0, "p-00003")],
        writes=[RENEWED, BEGUN],
        events=[
            writer.release_started(1, at, stable_storage_uri=STABLE),
            writer.weight_intended(2, at, weight=20, storage_uri=CANDIDATE, stable_storage_uri=STABLE),
            rolled_back,
        ],
        candidates={"p-00002"},
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
        ({"gave_up": True}, "gave up"),
        ({"lost_safe": False}, "while the task was lost"),
        ({"new_revisions": 3}, "3 new revisions"),
        ({"writes": [RENEWED, BEGUN, BEGUN]}, "begun 2 times"),
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
    seen.events = [seen.events[0], seen.events[2]]
    assert "gaps" in violations(seen)[0]


def test_two_rollbacks_in_one_record_are_told(seen: Evidence) -> None:
    """What was done once stands there once."""
    writer, at = EventWriter("moody-2", "moody", 2), seen.events[2].at
    again = writer.rolled_back(
        4, at, stable_storage_uri=STABLE, candidate_requests=1, candidate_errors=1, weight_0_at=at
    )
    seen.events = [*seen.events, again]
    assert violations(seen) == ["2 events rolled_back"]


def test_failures_of_a_killed_server_are_counted_apart(seen: Evidence) -> None:
    """Where the only router was killed, no stable version could have answered; before and after it could."""
    seen.answers = [answer(at, None, "reset") for at in (1.0, 5.0)]
    seen.excused = [Span(0.9, 2.0, "router")]
    assert [one[:17] for one in violations(seen)] == ["1 requests failed"]


def test_seeds_in_a_row_meet_every_fault_and_a_seed_is_always_the_same_run() -> None:
    """200 runs leave no kind out, and a run can be repeated."""
    assert {draw(seed).faults[0].kind for seed in range(len(KINDS))} == {*KINDS}
    assert draw(7) == draw(7)
