"""Requests that began and were never answered, from counters and a gauge that are not read at one instant.

A router counts a request when it begins and its answer when it ends. What is neither answered nor active is lost: the
client gave up, or the connection went. What is active for too long is overdue, and of it a lower bound is known: when
so many are active now and fewer began in the last `limit_s`, the rest began before.

None of this may go backwards: who is lost stays lost, and a request that was counted as overdue and is answered after
all was too late. So what is reported is the highest that was seen so far. That makes a gauge which is read a moment
before or after a counter harmless (it is never summed up, reading after reading), and counts nobody twice: the requests
that count are *answered or lost or overdue*, the failures among them *answered with an error or lost or overdue*, and a
request moves from one of these to another without changing the sum.

The counters of one page are read one after the other, and on a loaded machine there may be a pause between two of them.
A request that began and ended in it looks lost, on this page alone: what is really lost stays lost. So what some
readings in a row show is lost. What the last ones alone show counts at once beyond the number that began, at the
present rate, within the longest pause that is allowed for, and the rest a few readings later. Nothing is left out for
good, but for the few of a high rate that began within the time in which any page is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipway_core.metrics.values import check_moment, checked_count, unusable

Mark = tuple[float, int, int]
# The counters of one page are read within this time,
READ_WITHIN_S = 0.005
# and where the machine is loaded, within this one; so many readings before the last have to show the same.
LONGEST_PAUSE_S = 0.1
EARLIER_LOOKS = 3
# Marks of what had begun are kept so close, as a share of the limit.
_SPACING = 0.1


@dataclass(frozen=True)
class RequestFlow:
    """What one process knows of the requests that began, as totals since it was started.

    :param begun: requests that began, each once however often it was tried.
    :param active: those that are not over.
    :param lost: those that are over without an answer.
    :param timed_begun: of `begun`, those whose age counts. An open gRPC call may be a stream, which is open as long as
        it is wanted; where the source cannot tell, it has no age.
    :param timed_active: of `active`, likewise.
    :param limit_s: who is active for longer is overdue.
    :param settled: the most that were over or overdue at once.
    :param failed: the most that failed or were lost or overdue at once.
    :param unanswered: the most that were lost or overdue at once.
    :param looks: what looked lost at the readings before, the last one last.
    :param marks: moments (unix seconds) with what of `timed_begun` and of `begun` had begun by then.
    :raises MetricsUnavailableError: a count is invalid.
    """

    begun: int
    active: int
    lost: int
    timed_begun: int
    timed_active: int
    limit_s: float
    settled: int = 0
    failed: int = 0
    unanswered: int = 0
    looks: tuple[int, ...] = ()
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        for name in _COUNTS:
            object.__setattr__(self, name, checked_count(f"{name} requests", getattr(self, name)))
        if not 0 < self.limit_s < float("inf"):
            raise unusable("the age of a request", "a limit in seconds", repr(self.limit_s))

    def at(self, moment: float, requests: int, errors: int, before: RequestFlow | None = None) -> RequestFlow:
        """Return the flow as it is known at `moment` (unix seconds), with all that `before` knew.

        :param requests: the answers that the process has counted.
        :param errors: those with an error.
        :param before: an earlier flow of the same process; None: there is none, or the process was started again.
        """
        now: Mark = (moment, self.timed_begun, self.begun)
        marks = _thinned({now, *self.marks, *(before.marks if before else ())}, self.limit_s)
        looks = self.looks if before is None else (*before.looks, before.lost)[-EARLIER_LOOKS:]
        unanswered = self._surely_lost(self._rate_per_s(moment, marks), looks) + self._overdue(moment, marks)
        # One that was laid over an earlier one already knows more than a single look does.
        earlier = [one for one in (before, self if len(self.marks) > 1 else None) if one is not None]
        return replace(
            self,
            settled=max([requests + unanswered, *(one.settled for one in earlier)]),
            failed=max([errors + unanswered, *(one.failed for one in earlier)]),
            unanswered=max([unanswered, *(one.unanswered for one in earlier)]),
            looks=looks,
            marks=marks,
        )

    def _surely_lost(self, rate_per_s: float, looks: tuple[int, ...]) -> int:
        """Return how many are lost though the counters were read apart: as all looks show, or by far."""
        shown = min(self.lost, *looks) if len(looks) == EARLIER_LOOKS else 0
        return max(0, shown - int(READ_WITHIN_S * rate_per_s), self.lost - int(LONGEST_PAUSE_S * rate_per_s))

    def _rate_per_s(self, moment: float, marks: Sequence[Mark]) -> float:
        """Return how many began a second of late; 0 where that is not known."""
        earlier = [(at, begun) for at, _, begun in marks if at < moment]
        return (self.begun - earlier[-1][1]) / (moment - earlier[-1][0]) if earlier else 0.0

    def _overdue(self, moment: float, marks: Sequence[Mark]) -> int:
        """Return how many at least have been active for longer than the limit."""
        earlier = [timed for at, timed, _ in marks if at <= moment - self.limit_s]
        return max(0, self.timed_active - (self.timed_begun - max(earlier))) if earlier else 0

    def plus(self, other: RequestFlow) -> RequestFlow:
        """Return the flow of both parts of a process, before `at` was asked of either."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in _COUNTS})

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "limit_s": self.limit_s,
            "looks": list(self.looks),
            "marks": [list(mark) for mark in self.marks],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RequestFlow:
        """Rebuild a flow from `to_dict`'s form."""
        marks = tuple(
            (float(at), checked_count("a mark", timed), checked_count("a mark", begun))
            for at, timed, begun in value["marks"]
        )
        for at, _, _ in marks:
            check_moment("a mark", at)
        counts = {name: int(value[name]) for name in _COUNTS}
        looks = tuple(checked_count("a look", one) for one in value["looks"])
        return cls(**counts, limit_s=float(value["limit_s"]), looks=looks, marks=marks)


_COUNTS = ("begun", "active", "lost", "timed_begun", "timed_active", "settled", "failed", "unanswered")


def _thinned(marks: set[Mark], limit_s: float) -> tuple[Mark, ...]:
    """Return the marks that are needed: of those older than the limit the newest, and of the others some."""
    ordered = sorted(marks)
    newest = ordered[-1][0]
    old = [mark for mark in ordered if mark[0] <= newest - limit_s]
    kept = old[-1:]
    for mark in ordered[len(old) :]:
        if not kept or mark[0] >= kept[-1][0] + _SPACING * limit_s:
            kept.append(mark)
    return tuple(kept)
