"""What becomes of a notice after it was sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slipway_core.operations.notices.notice import Notice, OutboxEntry
from slipway_core.operations.notices.retry import PAUSES_S, Failure, Sent, after_sending, due_again

NOW = datetime(2026, 11, 22, 11, 0, tzinfo=UTC)
ENTRY = OutboxEntry(notice=Notice(event="held", model="digits", version=3, at=NOW), to=("slack", "mail"))


def test_what_all_have_taken_is_done() -> None:
    """Nothing is left of it."""
    assert after_sending(ENTRY, {}) == Sent(None, None)


def test_only_those_who_failed_are_tried_again() -> None:
    """With the reason, and one attempt more; a failure of somebody else counts for nothing."""
    sent = after_sending(ENTRY, {"mail": Failure("HTTP 500"), "other": Failure("no such connection")})
    left = sent.left
    assert left is not None
    assert sent.refused is None
    assert (left.to, left.attempts, left.failures) == (("mail",), 1, {"mail": "HTTP 500"})
    assert left.notice.id == ENTRY.notice.id


def test_the_pauses_grow_and_end() -> None:
    """Each failure is followed by a longer pause; after the last one it is given up."""
    pauses = []
    entry: OutboxEntry | None = ENTRY
    while True:
        assert entry is not None
        entry = after_sending(entry, {"slack": Failure("HTTP 500")}).left
        assert entry is not None
        due = due_again(entry, NOW)
        if due is None:
            break
        pauses.append(int((due - NOW).total_seconds()))
    assert tuple(pauses) == PAUSES_S
    assert list(PAUSES_S) == sorted(PAUSES_S)


def test_who_will_never_take_it_is_given_up_at_once() -> None:
    """The others are tried again without it."""
    sent = after_sending(ENTRY, {"slack": Failure("HTTP 404", is_final=True), "mail": Failure("HTTP 500")})
    assert sent.refused is not None
    assert sent.left is not None
    assert (sent.refused.to, sent.refused.failures) == (("slack",), {"slack": "HTTP 404"})
    assert (sent.left.to, sent.left.failures) == (("mail",), {"mail": "HTTP 500"})


@pytest.mark.parametrize(
    ("wanted_s", "pause_s"), [(0.0, 30), (10.0, 30), (600.0, 600), (float("inf"), 21600)], ids=str
)
def test_a_receiver_says_when_it_wants_to_be_asked(wanted_s: float, pause_s: int) -> None:
    """No sooner than it says, up to six hours, and no sooner than without that."""
    (left,) = (after_sending(ENTRY, {"slack": Failure("HTTP 429")}).left,)
    assert left is not None
    assert due_again(left, NOW, wanted_s) == NOW + timedelta(seconds=pause_s)
