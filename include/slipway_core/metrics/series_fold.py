"""What one series counted between two readings, sample by sample.

Each drop between two samples is a restart, after which all that is shown is new; so restarts between two readings lose
nothing that a scrape saw. What a process can have counted in the time distinguishes two other cases from a restart or a
start: an old value behind a newer one (two servers that answer in turn, or whose samples were mixed), and an old
process that was hidden when the readings began. Neither may count its whole life again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from slipway_core.metrics.counters import NOTHING, Counters, Growth, counts_were_reset, growth

Moments = Sequence[tuple[float, Counters]]
# A process that counts so many times more than it does now was not started a moment ago.
_TIMES_FASTER = 10.0
# What any process may have counted at once, and per second: below and above that pace says nothing.
_A_FEW, _MOST_PER_S = 100, 10_000.0


@dataclass(frozen=True)
class Beginning:
    """What is known of the window that a series is looked at in.

    :param since: the moment (unix seconds) of the reading that the window begins with.
    :param others: what the revision's series that were known by then have counted since.
    :param is_new_process: none of them is of the same process.
    """

    since: float
    others: int = 0
    is_new_process: bool = True


def since_known(at: float, known: Counters, moments: Moments) -> Growth:
    """Return what a series counted since it was seen at `at`."""
    return _walk(at, known, [one for one in moments if one[0] > at])


def since_beginning(moments: Moments, beginning: Beginning) -> Growth:
    """Return what a series that was not seen before counted in a window."""
    earlier = [one for one in moments if one[0] <= beginning.since]
    later = [one for one in moments if one[0] > beginning.since]
    if not later:
        return Growth()
    if earlier and not beginning.is_new_process and _is_little(earlier[0][1], beginning):
        # Its samples came late: the process was seen, and this part of it was never counted.
        return _walk(beginning.since, NOTHING, moments)
    if earlier:
        return _walk(*earlier[-1], later)
    if beginning.is_new_process and not _may_be_born(later, beginning):
        return _walk(*later[0], later[1:])
    return _walk(beginning.since, NOTHING, later)


def _walk(at: float, known: Counters, moments: Moments) -> Growth:
    parts: list[Growth] = []
    pace = _pace(moments)
    for moment, counters in moments:
        if _is_lower(counters, known) and not _may_have_counted(counters, moment - at, pace):
            continue  # an older value: no process that was started since shows so much
        now = counters.at(moment, known)
        parts.append(growth(known, now))
        at, known = moment, now
    grown = reduce(Growth.plus, parts, Growth())
    # What is active is so at the end; it does not add up.
    return replace(grown, active=parts[-1].active) if parts else grown


def _is_lower(counters: Counters, known: Counters) -> bool:
    return counts_were_reset(known, counters) or _size(counters) < _size(known)


def _may_be_born(moments: Moments, beginning: Beginning) -> bool:
    """Return whether all that the first sample shows can have been counted since the window began."""
    at, counters = moments[0]
    if _is_little(counters, beginning):
        return True
    return _may_have_counted(counters, at - beginning.since, _pace(moments), unknown=not beginning.others)


def _is_little(counters: Counters, beginning: Beginning) -> bool:
    """Return whether it is no more than what a part of the revision may count in such a window."""
    return _size(counters) <= _TIMES_FASTER * beginning.others + _A_FEW


def _may_have_counted(
    counters: Counters, elapsed_s: float, pace: float | None, *, unknown: bool = True
) -> bool:
    """Return whether a process can have counted so much in a time, going by its pace.

    :param unknown: where there is no pace to go by, only what no process can do is excluded.
    """
    if pace:
        return _size(counters) <= _TIMES_FASTER * pace * elapsed_s + _A_FEW
    return unknown and _size(counters) <= _MOST_PER_S * elapsed_s


def _pace(moments: Moments) -> float | None:
    """Return what a series counts per second, by its rises; None with fewer than two samples."""
    if len(moments) < 2:
        return None
    sizes = [_size(counters) for _, counters in moments]
    rises = sum(max(0, now - before) for before, now in itertools.pairwise(sizes))
    return rises / (moments[-1][0] - moments[0][0])


def _size(counters: Counters) -> int:
    return counters.requests + sum(counters.latency_buckets.values())
