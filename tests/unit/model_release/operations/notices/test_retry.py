"""What becomes of a notice after it was sent."""

from __future__ import annotations

from datetime import UTC, datetime

from include.model_release.operations.notices.notice import Notice, OutboxEntry
from include.model_release.operations.notices.retry import PAUSES_S, after_sending, due_again

NOW = datetime(2026, 11, 22, 11, 0, tzinfo=UTC)
ENTRY = OutboxEntry(notice=Notice(event="held", model="digits", version=3, at=NOW), to=("slack", "mail"))


def test_what_all_have_taken_is_done() -> None:
    """Nothing is left of it."""
    assert after_sending(ENTRY, {}) is None


def test_only_those_who_failed_are_tried_again() -> None:
    """With the reason, and one attempt more; a failure of somebody else counts for nothing."""
    left = after_sending(ENTRY, {"mail": "HTTP 500", "other": "no such connection"})
    assert left is not None
    assert (left.to, left.attempts, left.failures) == (("mail",), 1, {"mail": "HTTP 500"})
    assert left.notice.id == ENTRY.notice.id


def test_the_pauses_grow_and_end() -> None:
    """Each failure is followed by a longer pause; after the last one it is given up."""
    pauses = []
    entry: OutboxEntry | None = ENTRY
    while True:
        assert entry is not None
        entry = after_sending(entry, {"slack": "HTTP 500"})
        assert entry is not None
        due = due_again(entry, NOW)
        if due is None:
            break
        pauses.append(int((due - NOW).total_seconds()))
    assert tuple(pauses) == PAUSES_S
    assert list(PAUSES_S) == sorted(PAUSES_S)
