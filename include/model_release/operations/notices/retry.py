"""What becomes of a notice after it was sent to its receivers: done, tried again later, or given up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from include.model_release.operations.notices.notice import OutboxEntry

PAUSES_S = (30, 120, 480, 1800, 7200, 21600)
"""How long after each failure it is tried again; after the last one, some nine hours in all, no more."""


def after_sending(entry: OutboxEntry, failures: Mapping[str, str]) -> OutboxEntry | None:
    """Return what is left of an entry: only the receivers that failed, one attempt more; None: nothing.

    :param failures: the reason by receiver.
    """
    left = {one: failures[one] for one in entry.to if one in failures}
    if not left:
        return None
    return entry.model_copy(update={"to": tuple(left), "attempts": entry.attempts + 1, "failures": left})


def due_again(entry: OutboxEntry, now: datetime) -> datetime | None:
    """Return when an entry that has failed is tried again; None: it is given up."""
    if entry.attempts > len(PAUSES_S):
        return None
    return now + timedelta(seconds=PAUSES_S[max(entry.attempts, 1) - 1])
