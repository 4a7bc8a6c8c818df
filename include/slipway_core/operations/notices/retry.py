"""What becomes of a notice after it was sent to its receivers: done, tried again later, or given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from slipway_core.operations.notices.notice import OutboxEntry

PAUSES_S = (30, 120, 480, 1800, 7200, 21600)
"""How long after each failure it is tried again; after the last one, some nine hours in all, no more."""


@dataclass(frozen=True)
class Failure:
    """Why a receiver did not take a notice.

    :param is_final: no further try can succeed: a wrong address, credentials that are refused.
    :param retry_after_s: when the receiver wants to be asked again; 0: it does not say.
    """

    reason: str
    is_final: bool = False
    retry_after_s: float = 0.0


@dataclass(frozen=True)
class Sent:
    """What is left of an entry.

    :param left: with the receivers that are tried again, one attempt more; None: there are none.
    :param refused: with the receivers that are given up at once; None: there are none.
    """

    left: OutboxEntry | None
    refused: OutboxEntry | None


def after_sending(entry: OutboxEntry, failures: Mapping[str, Failure]) -> Sent:
    """Return what is left of an entry after it was sent.

    :param failures: by receiver.
    """
    reasons = {one: failures[one].reason for one in entry.to if one in failures}

    def of(*, is_final: bool) -> OutboxEntry | None:
        to = tuple(one for one in reasons if failures[one].is_final is is_final)
        if not to:
            return None
        left = {one: reasons[one] for one in to}
        return entry.model_copy(update={"to": to, "attempts": entry.attempts + 1, "failures": left})

    return Sent(left=of(is_final=False), refused=of(is_final=True))


def due_again(entry: OutboxEntry, now: datetime, retry_after_s: float = 0.0) -> datetime | None:
    """Return when an entry that has failed is tried again; None: it is given up.

    :param retry_after_s: what a receiver has asked for; it counts up to the longest pause.
    """
    if entry.attempts > len(PAUSES_S):
        return None
    pause_s = PAUSES_S[max(entry.attempts, 1) - 1]
    return now + timedelta(seconds=max(pause_s, min(retry_after_s, PAUSES_S[-1])))
