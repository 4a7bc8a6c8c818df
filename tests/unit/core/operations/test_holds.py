"""What holds a release now, what ends that, and who may override it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import (
    ReleaseHeldError,
    ReleaseNotNowError,
    StoreUnavailableError,
    UserError,
)
from slipway_core.operations.freezes import Freeze, freeze, parse_freeze
from slipway_core.operations.holds import Cause, Hold, causes_of, hold_of, overridden_by
from slipway_core.record.fold import fold
from slipway_core.record.kinds import HoldOverridden, RaiseHeld
from slipway_core.record.state import HoldOverride
from slipway_core.spec.rollout.release_windows import ReleaseWindow
from tests.support.record.attempts import GOOD, RUN, Write, intended, promotion, record, recorded, started

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)  # a Monday
OPEN = ReleaseWindow(days=("mon",), opens="09:00", closes="16:00")
CLOSED = ReleaseWindow(days=("tue",), opens="09:00", closes="16:00", time_zone="Europe/Berlin")
TUESDAY = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)


def frozen(model: str | None = None, by: str = "bob", hours: float = 1) -> Freeze:
    """Return a freeze that ends so many hours from now."""
    until = NOW + timedelta(hours=hours)
    key, content = freeze(model, who=by, now=NOW - timedelta(days=1), until=until, reason="audit", run_id=by)
    return parse_freeze(content, key)


def override(cause: Cause, by: str) -> HoldOverride:
    """Return a person's override of it, as the record has it."""
    return HoldOverride(by=by, reason="urgent", hold_sha256=cause.sha256, at=NOW)


def test_nothing_holds_in_an_open_window() -> None:
    """Nor without windows; another model's freeze, and one that is over, hold nothing."""
    for windows in ((), (OPEN,), (CLOSED, OPEN)):
        others = [frozen("magika"), frozen(hours=0), frozen(hours=-1)]
        assert causes_of(NOW, "digits", windows, others) == []
    assert hold_of([], (), triggered_by=None) is None


def test_the_message_names_what_holds_and_until_when() -> None:
    """The freeze with its author and reason, the window with its hours, and the later end of both."""
    causes = causes_of(NOW, "digits", (CLOSED,), [frozen("digits", hours=48)])
    hold = hold_of(causes, (), triggered_by=None)
    assert hold is not None
    for word in ("frozen by bob", "audit", "tue 09:00 to 16:00 (Europe/Berlin)", "2026-11-24 08:00:00 UTC"):
        assert word in hold.reason
    assert hold.until == NOW + timedelta(hours=48)
    alone = hold_of(causes_of(NOW, "digits", (CLOSED,), []), (), triggered_by=None)
    assert alone is not None
    assert alone.until == TUESDAY


def test_a_file_may_refuse_what_another_waits_for() -> None:
    """What could not be read is waited for in any case: nobody knows whether there is anything to refuse for."""
    hold = Hold("every model is frozen", TUESDAY)
    assert isinstance(hold.error("the raise", refuse=False), ReleaseHeldError)
    assert isinstance(hold.error("the raise", refuse=True), ReleaseNotNowError)
    unknown = Hold.unknown(StoreUnavailableError("the store is away"))
    assert isinstance(unknown.error("the raise", refuse=True), ReleaseHeldError)
    assert "could not be read" in str(unknown.error("the raise", refuse=True))


def test_an_override_needs_two_people() -> None:
    """Not the freeze's author; of a closed window, not who started the release."""
    (cause,) = causes_of(NOW, "digits", (), [frozen(by="bob")])
    assert hold_of([cause], [override(cause, "bob")], triggered_by="alice") is not None
    assert hold_of([cause], [override(cause, "")], triggered_by="alice") is not None
    assert hold_of([cause], [override(cause, "carol")], triggered_by="alice") is None
    (closed,) = causes_of(NOW, "digits", (CLOSED,), [])
    assert hold_of([closed], [override(closed, "alice")], triggered_by="alice") is not None
    assert hold_of([closed], [override(closed, "carol")], triggered_by="alice") is None


def test_an_override_is_of_that_hold_alone() -> None:
    """Another freeze, other windows, and the next closed time hold again."""
    (cause,) = causes_of(NOW, "digits", (), [frozen(by="bob")])
    (other,) = causes_of(NOW, "digits", (), [frozen(by="bob", hours=2)])
    assert hold_of([other], [override(cause, "carol")], triggered_by=None) is not None
    (closed,) = causes_of(NOW, "digits", (CLOSED,), [])
    (later,) = causes_of(NOW + timedelta(days=2), "digits", (CLOSED,), [])
    assert hold_of([later], [override(closed, "carol")], triggered_by=None) is not None
    (still,) = causes_of(NOW + timedelta(hours=8), "digits", (CLOSED,), [])
    assert hold_of([still], [override(closed, "carol")], triggered_by="alice") is None


def test_a_closed_window_opens_by_two_people_for_what_nobody_has_started() -> None:
    """One alone may be who has uploaded the version; the same person twice is one."""
    (closed,) = causes_of(NOW, "digits", (CLOSED,), [])
    for alone in (["carol"], ["carol", "Carol"]):
        assert hold_of([closed], [override(closed, who) for who in alone], triggered_by=None) is not None
    both = [override(closed, who) for who in ("carol", "bob")]
    assert hold_of([closed], both, triggered_by=None) is None


def test_who_overrides_says_what_was_in_front_of_them() -> None:
    """One event for each cause, with its digest and its author."""
    causes = causes_of(NOW, "digits", (CLOSED,), [frozen(by="bob")])
    first, second = overridden_by("carol", "urgent", causes)
    assert (first.by, first.set_by, first.hold_sha256) == ("carol", "bob", causes[0].sha256)
    assert "frozen by bob" in first.hold
    assert second.set_by is None
    for who, given_causes, told in (
        ("bob", causes, "a person other than"),
        (None, causes, "it is unknown who"),
        ("carol", [], "nothing"),
    ):
        with pytest.raises(UserError, match=told):
            overridden_by(who, "urgent", given_causes)


@given(
    st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.floats(-2, 50)), max_size=6),
    st.lists(st.sampled_from(["ann", "bob", "carol"]), max_size=4),
    st.booleans(),
)
def test_a_hold_ends_only_when_all_of_it_has(
    freezes: list[tuple[str, float]], people: list[str], is_closed: bool
) -> None:
    """It is held while anything that nobody else has overridden holds it, and then it says until when."""
    given_freezes = [frozen(by=by, hours=hours) for by, hours in freezes]
    causes = causes_of(NOW, "digits", (CLOSED,) if is_closed else (), given_freezes)
    overrides = [override(cause, who) for cause in causes for who in people]
    hold = hold_of(causes, overrides, triggered_by="ann")
    left = [cause for cause in causes if not set(people) - {cause.set_by or "ann"}]
    assert (hold is not None) == bool(left)
    if hold is not None:
        assert hold.until == max(cause.until for cause in left if cause.until is not None)
        assert hold.until > NOW
        assert len(hold.reason) < 3000


# --- the record ---


def held(weight: int = 5) -> Write:
    return lambda write, seq, at: write.event(seq, at, RaiseHeld(weight=weight, hold="frozen", until=TUESDAY))


def overridden(by: str = "carol") -> Write:
    return lambda write, seq, at: write.event(
        seq, at, HoldOverridden(by=by, reason="urgent", hold="frozen", hold_sha256="a" * 64, set_by="bob")
    )


def test_the_record_says_what_is_waited_for() -> None:
    """Until the next raise begins, or the version is promoted."""
    assert fold(record(*GOOD[:5], held())).held == "frozen"
    assert fold(record(*GOOD[:5], held(), intended(5))).held == ""
    assert fold(record(*GOOD, held(100), promotion())).held == ""


def test_an_override_by_another_run_counts_for_every_attempt() -> None:
    """It is about the version."""
    events = recorded([("manual__1", overridden()), *((RUN, write) for write in GOOD), ("again", started())])
    state = fold(events)
    assert [(one.by, one.hold_sha256) for one in state.overrides] == [("carol", "a" * 64)]
    assert (state.release_id, state.strays) == ("again", 0)
