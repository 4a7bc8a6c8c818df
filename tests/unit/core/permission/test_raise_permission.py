"""Who may raise a weight: what must be in the record, and that nothing but the record counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.errors import CanaryEndedError, CanaryPausedError
from slipway_core.permission.raise_permission import (
    Raise,
    fleet_refusal,
    lease_refusal,
    raise_refusal,
)
from slipway_core.record.events import Event, EventWriter
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    ReleaseStarted,
)
from slipway_core.record.requirements import Requirements, requirements_of
from slipway_core.record.state import Rejection
from slipway_core.rollout.lease import Lease
from slipway_core.spec.release_file import parse_release_spec
from tests.support.examples import examples
from tests.support.record.attempts import (
    DIGEST,
    GOOD,
    OTHER_DIGEST,
    OTHER_RUN,
    REQUIRED,
    RUN,
    START,
    WEIGHTS,
    Write,
    approved,
    ended,
    finished,
    going_back,
    gone_back,
    intended,
    promotion,
    record,
    recorded,
    started,
    stepped,
    verified,
)


def allowed(events: Sequence[Event], weight: int, digest: str = DIGEST, run: str = RUN) -> bool:
    return raise_refusal(Raise(run, weight, digest), fold(events)) is None


def test_a_release_that_proves_itself_goes_all_the_way() -> None:
    """Preview after the gates, each step after the one before, the promotion last; and none any sooner."""
    highest = [max((w for w in WEIGHTS if allowed(record(*GOOD[:n]), w)), default=-1) for n in range(1, 12)]
    assert highest == [-1, -1, -1, 0, 5, 5, 50, 50, 50, 50, 100]


def test_a_weight_that_is_no_step_is_refused() -> None:
    """Between the steps there is nothing."""
    assert not allowed(record(*GOOD), 20)


@pytest.mark.parametrize("left_out", range(1, len(GOOD)))
def test_nothing_may_be_missing(left_out: int) -> None:
    """Without any one of the proofs there is no promotion, whatever else is there."""
    needed = {1, 2, 3, 4, 6, 8, 10}
    rest = [write for number, write in enumerate(GOOD) if number != left_out]
    assert allowed(record(*rest), 100) == (left_out not in needed)


REFUSED: dict[str, tuple[tuple[Write, ...], str]] = {
    "no requirements": ((started(None), *GOOD[1:]), "one that does not say it"),
    "a gate refused": ((*GOOD, finished("mirror", "refused")), "mirror refused"),
    "the canary failed": ((*GOOD, finished("canary", "failed")), "canary failed"),
    "a gate was inconclusive": ((*GOOD, finished("benchmark", "inconclusive")), "it is inconclusive"),
    "a gate looked at other bytes": ((*GOOD, finished("validate", digest=OTHER_DIGEST)), "it looked at bbb"),
    "other bytes were verified": ((*GOOD, verified(OTHER_DIGEST)), OTHER_DIGEST),
    "a step failed": ((*GOOD[:8], stepped(50, "fail"), *GOOD[9:]), "the step at 50 %, passed"),
    "a step was inconclusive": ((*GOOD[:8], stepped(50, "inconclusive"), *GOOD[9:]), "the step at 50 %"),
    "the steps began anew": ((*GOOD, intended(5)), "the step at 5 %"),
    "it goes back": ((*GOOD, going_back()), "being rolled back"),
    "it has gone back": ((*GOOD, going_back(), gone_back()), "ended as rolled_back"),
    "it was refused": ((*GOOD, ended("refused")), "ended as refused"),
    "it is promoted": ((*GOOD, promotion()), "ended as promoted"),
    "who started it approved": ((*GOOD[:10], approved("promotion", "alice")), "by alice"),
    "nobody known approved": ((*GOOD[:10], approved("promotion", "")), "by an unknown person"),
    "other bytes were approved": ((*GOOD[:10], approved("promotion", digest=OTHER_DIGEST)), "another one"),
    "the approval is of the run before": (
        (*GOOD, ended("failed"), *GOOD[:10]),
        "no approval",
    ),
}


@pytest.mark.parametrize(("writes", "found"), REFUSED.values(), ids=REFUSED)
def test_what_forbids_the_promotion(writes: tuple[Write, ...], found: str) -> None:
    """The refusal says what was expected and what was found."""
    refusal = raise_refusal(Raise(RUN, 100, DIGEST), fold(record(*writes)))
    assert refusal is not None
    assert found in str(refusal)
    assert "version 3 of 'digits' may not get 100 %" in str(refusal)


def test_a_manifest_that_was_replaced_since_is_refused() -> None:
    """What lies in the store now must be what every gate looked at."""
    assert not allowed(record(*GOOD), 100, OTHER_DIGEST)
    assert not allowed(record(*GOOD), 100, "")


def test_a_late_task_of_an_earlier_run_raises_nothing() -> None:
    """A newer run of the version has begun: the proofs of the older one are its own."""
    events = recorded([*((RUN, write) for write in GOOD), (OTHER_RUN, started())])
    assert not allowed(events, 100)
    assert not allowed(events, 100, run=OTHER_RUN)


def test_a_first_version_needs_gates_and_whom_the_file_asks() -> None:
    """There are no steps; the one raise is to everybody."""
    first = Requirements(weights=(), approvals=("canary",))
    gates = (started(first), *GOOD[1:4])
    assert not allowed(record(*gates), 100)
    assert allowed(record(*gates, approved("canary", "alice")), 100)
    assert not allowed(record(*gates, approved("canary", "alice")), 5)


def test_a_smoke_test_that_is_asked_for_must_have_passed_for_this_manifest() -> None:
    """It is a gate unless the release file leaves it out; not run, or for other bytes, it is no pass."""
    text = "model: digits\nsource: {format: onnx}\n"
    asked = requirements_of(parse_release_spec(text, "digits.yaml"), first=False)
    left_out = requirements_of(parse_release_spec(f"{text}smoke_test: null\n", "digits.yaml"), first=False)
    assert asked.gates == ("smoke_test", *left_out.gates)
    shown = (started(replace(REQUIRED, gates=asked.gates)), *GOOD[1:5])
    assert not allowed(record(*shown), 0)
    assert not allowed(record(*shown, finished("smoke_test", "failed")), 0)
    assert not allowed(record(*shown, finished("smoke_test", digest=OTHER_DIGEST)), 0)
    assert allowed(record(*shown, finished("smoke_test")), 5)


def test_mirrored_requests_are_compared_between_the_preview_and_the_first_percent() -> None:
    """The candidate is shown without that gate, which needs it; no user meets it before the gate has passed."""
    mirrored = replace(REQUIRED, gates=("validate", "benchmark", "mirror"))
    shown = (started(mirrored), *GOOD[1:5])
    assert allowed(record(*shown), 0)
    assert not allowed(record(*shown), 5)
    assert allowed(record(*shown, finished("mirror")), 5)


def test_what_no_person_has_started_needs_two_who_approve() -> None:
    """One alone may be who has uploaded the version, and the same name written otherwise is one person."""
    by_event = EventWriter(RUN, "digits", 3).event(1, START, ReleaseStarted(required=REQUIRED))
    assert not allowed([by_event, *record(*GOOD)[1:]], 100)
    for second, is_enough in (("BOB", False), ("carol", True)):
        again = [approved(before, second) for before in ("canary", "promotion")]
        assert allowed([by_event, *record(*GOOD, *again)[1:]], 100) is is_enough


# --- every order of events: cleared, marked, retried and late tasks included ---

ANY_EVENT = st.tuples(
    st.sampled_from([RUN, RUN, RUN, OTHER_RUN]),
    st.sampled_from(
        [
            *GOOD,
            started(),
            finished("validate", digest=OTHER_DIGEST),
            finished("benchmark", "failed"),
            finished("canary", "refused"),
            verified(OTHER_DIGEST),
            approved("promotion", "alice"),
            approved("canary", digest=OTHER_DIGEST),
            stepped(5, "fail"),
            stepped(50, "inconclusive"),
            intended(5),
            intended(50),
            going_back(),
            gone_back(),
            promotion(),
            ended("failed"),
            ended("refused"),
        ]
    ),
)


def attempt_of(events: Sequence[Event]) -> list[Event]:
    """Return the events of the newest attempt, found in the plainest way: what the fold must agree with."""
    attempt: list[Event] = []
    for event in events:
        if event.kind == "release_started":
            over = any(one.kind in ("release_finished", "promoted") for one in attempt)
            over = over or any(one.kind == "rolled_back" for one in attempt)
            if not attempt or attempt[0].release_id != event.release_id or over:
                attempt = [event]
        elif attempt and event.release_id == attempt[0].release_id:
            attempt.append(event)
    return attempt


def proves(attempt: Sequence[Event], weight: int) -> bool:
    """Whether the attempt holds, read in the plainest way, at least what this weight needs."""

    def last(kind: str, **data: object) -> Event | None:
        found = [e for e in attempt if e.kind == kind and e.data.to_document().items() >= data.items()]
        return found[-1] if found else None

    def gate(name: str) -> bool:
        one = last("stage_finished", stage=name)
        return one is not None and (one.data.outcome, one.data.manifest_sha256) == ("passed", DIGEST)

    def agreed(before: str) -> bool:
        return last("approved", before=before, by="bob", manifest_sha256=DIGEST) is not None

    def passed(step: int) -> bool:
        one = last("step_finished", weight=step)
        return one is not None and one.data.verdict == "pass"

    one = last("candidate_verified")
    ends = {"promoted", "rolled_back", "release_finished", "rollback_started"}
    return (
        gate("validate")
        and gate("benchmark")
        and one is not None
        and one.data.manifest_sha256 == DIGEST
        and not any(event.kind in ends for event in attempt)
        and (weight == 0 or agreed("canary"))
        and (weight < 100 or agreed("promotion"))
        and all(passed(step) for step in (5, 50) if step < weight)
    )


@settings(max_examples=examples(750))
@given(
    st.lists(ANY_EVENT, max_size=12),
    st.lists(st.integers(0, len(GOOD)), max_size=6),
    st.sampled_from(WEIGHTS),
)
def test_no_order_of_events_allows_what_was_not_proved(
    noise: list[tuple[str, Write]], places: list[int], weight: int
) -> None:
    """Whatever tasks were cleared, marked, retried or late: a raise is allowed only where its attempt proves it all."""
    writes: list[tuple[str, Write]] = [(RUN, write) for write in GOOD]
    for place, one in zip(places, noise, strict=False):
        writes.insert(place, one)
    writes += noise[len(places) :]
    events = recorded(writes)
    if allowed(events, weight):
        attempt = attempt_of(events)
        assert attempt[0].release_id == RUN
        assert proves(attempt, weight)


@settings(max_examples=examples(100))
@given(st.data())
def test_what_ends_a_release_ends_every_raise(data: st.DataObject) -> None:
    """After the end, or once it was decided to go back, no late event of the run brings a raise back."""
    end = data.draw(st.sampled_from([going_back(), gone_back(), promotion(), ended("failed")]))
    place = data.draw(st.integers(1, len(GOOD)))
    late = [write for write in GOOD[1:] if data.draw(st.booleans())]
    events = record(*GOOD[:place], end, *late)
    assert not any(allowed(events, weight) for weight in WEIGHTS)


# --- the lease ---


def lease(**changes: object) -> Lease:
    return replace(Lease("slipway-digits", "models", "digits", RUN, 60), **changes)  # type: ignore[arg-type]


def test_the_lease_must_be_held_not_ended_and_not_paused() -> None:
    """Each way in which it may not be raised is told apart; a pause may pass, an end does not."""
    assert lease_refusal(RUN, lease()) is None
    assert isinstance(lease_refusal(RUN, None), CanaryEndedError)
    assert isinstance(lease_refusal(RUN, lease(holder=OTHER_RUN)), CanaryEndedError)
    assert isinstance(lease_refusal(RUN, lease(ended_by="guard")), CanaryEndedError)
    assert isinstance(lease_refusal(RUN, lease(paused="let me look")), CanaryPausedError)


PROVED = (*GOOD[:5], GOOD[10])
FLEET: dict[str, tuple[tuple[Write, ...], str, str]] = {
    "gates passed": (PROVED, DIGEST, ""),
    "promoted": ((*GOOD, promotion()), DIGEST, ""),
    "a gate is missing": ((*GOOD[:2], *PROVED[3:]), DIGEST, "it was not run"),
    "a gate refused": ((*PROVED, finished("benchmark", "refused")), DIGEST, "it is refused"),
    "a gate looked at other bytes": (
        (*PROVED, finished("benchmark", digest=OTHER_DIGEST)),
        DIGEST,
        "it looked at bbb",
    ),
    "no approval": (GOOD[:4], DIGEST, "no approval"),
    "other bytes lie there": (PROVED, OTHER_DIGEST, OTHER_DIGEST),
    "no requirements": ((started(None), *PROVED[1:]), DIGEST, "one that does not say it"),
}


@pytest.mark.parametrize(("writes", "digest", "found"), FLEET.values(), ids=FLEET)
def test_fleet_gets_what_has_passed_its_gates(writes: tuple[Write, ...], digest: str, found: str) -> None:
    """The gates of the newest release, for the manifest that lies in the store; a canary is not asked for."""
    refusal = fleet_refusal(fold(record(*writes)), manifest_sha256=digest)
    if found:
        assert refusal is not None
        assert found in str(refusal)
    else:
        assert refusal is None


def test_fleet_gets_nothing_without_a_record() -> None:
    """A version of which nothing is known has proved nothing."""
    refusal = fleet_refusal(None, manifest_sha256=DIGEST)
    assert refusal is not None
    assert "a record of the version's gates" in str(refusal)


def test_fleet_gets_nothing_that_was_rejected_or_taken_back() -> None:
    """A rejection, or a rollback, holds whatever was proved before."""
    good = fold(record(*GOOD))
    rejection = Rejection(9, START, "wrong labels", by="anna")
    for state in (
        replace(good, rejection=rejection),
        replace(good, standing="rolled_back"),
        replace(good, rolling_back=True),
        replace(good, outcome="rolled_back"),
    ):
        assert fleet_refusal(state, manifest_sha256=DIGEST) is not None
