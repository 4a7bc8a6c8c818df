"""The latencies that a judge has compared, summed, so that a verdict on them can be given in milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slipway_core.canary.latency import above, add_histograms, ceiling_bound, quantile_ms
from slipway_core.metrics.samples import Window
from slipway_core.written_numbers import number

Histogram = dict[float, int]


class LatencyTotals:
    """Both revisions' histograms (upper bound in ms to requests) over the windows whose latencies were tested."""

    def __init__(self) -> None:
        self._stable: Histogram = {}
        self._candidate: Histogram = {}

    def add(self, window: Window) -> None:
        """Take in one window. Histograms with other bounds cannot be added: with such a window the sums begin again."""
        stable, candidate = window.stable.latency_buckets, window.candidate.latency_buckets
        if not stable or not candidate:
            return
        if {*stable} != {*self._stable} or {*candidate} != {*self._candidate}:
            self._stable, self._candidate = {}, {}
        self._stable = add_histograms(self._stable, stable)
        self._candidate = add_histograms(self._candidate, candidate)

    def against_stable(self, level: float) -> str:
        """Return both revisions' latency at one level of the distribution, in words; "" if none were seen.

        The words say how often each exceeds stable's latency. These shares show a fault that began so late that the
        quantile over all windows does not show it yet.
        """
        theirs = quantile_ms(self._stable, level)
        mine = quantile_ms(self._candidate, level)
        if theirs is None or mine is None:
            return ""
        words = (
            f"p{100 * level:g} {_in_ms(mine)} against {_in_ms(theirs)} of stable (quantile {level:g} from "
            f"{sum(self._candidate.values()):,} and {sum(self._stable.values()):,} requests"
        )
        bound = ceiling_bound(self._candidate, theirs[0])
        if bound is not None and bound in self._stable:
            words += (
                f"; {_share(self._candidate, bound)} of its answers took longer than {bound:g} ms, "
                f"{_share(self._stable, bound)} of stable's"
            )
        return f"{words})"

    def against_ceiling(self, level: float, ceiling_ms: float) -> str:
        """Return the candidate's latency at one level and how often it exceeds the ceiling, in words; "" if unknown."""
        mine = quantile_ms(self._candidate, level)
        bound = ceiling_bound(self._candidate, ceiling_ms)
        if mine is None or bound is None:
            return ""
        return (
            f"p{100 * level:g} {_in_ms(mine)}, the ceiling is {ceiling_ms:g} ms (quantile {level:g} from "
            f"{sum(self._candidate.values()):,} requests; {_share(self._candidate, bound)} of its answers took "
            f"longer than {bound:g} ms)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "stable": histogram_to_list(self._stable),
            "candidate": histogram_to_list(self._candidate),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> LatencyTotals:
        """Rebuild the sums from `to_dict`'s form.

        :raises ValueError: a bound or a count is not a number.
        :raises KeyError: a revision is missing.
        :raises TypeError: a part has another form.
        """
        found = cls()
        found._stable = histogram_from_list(value["stable"])
        found._candidate = histogram_from_list(value["candidate"])
        return found


def histogram_to_list(histogram: Mapping[float, int]) -> list[list[Any]]:
    """Return pairs of bound and count, JSON-ready; the bound None is infinity."""
    return [[None if math.isinf(bound) else bound, count] for bound, count in histogram.items()]


def histogram_from_list(value: Sequence[Sequence[Any]]) -> Histogram:
    """Rebuild a histogram from `histogram_to_list`'s form.

    :raises ValueError: a bound or a count is not a number.
    :raises TypeError: the value has another form.
    """
    return {math.inf if bound is None else float(bound): int(count) for bound, count in value}


def _in_ms(quantile: tuple[float, bool]) -> str:
    value, beyond = quantile
    return f"{'more than ' if beyond else ''}{number(value)} ms"


def _share(histogram: Mapping[float, int], bound: float) -> str:
    slow = above(histogram, bound)
    return f"{number(100 * slow.events / slow.count)} %" if slow.count else "none"
