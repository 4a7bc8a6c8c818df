"""Whether the router sends as many requests to the candidate as the step's weight says, by its own counts.

The status says that a weight is reached; only this check notices a router that does something else. Its counts are
compared with the weight, with a tolerance for what is no fault: the counters of two revisions are read at different
moments, and stable may be retried. So the odds of the candidate may be half or double those of the weight. Beyond that
the chance of the counts is bounded by Chernoff's inequality, which is never below the exact binomial probability, and
equals it for a candidate without requests. Requests count when they begin, if the source can tell: one that is never
answered was routed somewhere, too.

The first window of a step does not count: it may have begun while the step before still had its weight. Evidence ages:
the last windows count, and none for more than twice what the others usually have, so that one window that was counted
wrongly is not all there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from slipway_core.metrics.samples import Sample, Window
from slipway_core.written_numbers import number

# How likely the counts are, at most, where a router that works is said not to.
ALPHA = 1e-6
# Tolerated factor between the candidate's odds and those of the weight.
TOLERATED_ODDS = 2.0
# How many windows count, and for how many times the median of the others one of them may.
WINDOWS = 20
_HEAVIEST = 2.0


@dataclass(frozen=True)
class RouterShare:
    """Users' requests of a step by window, as (candidate's, stable's); `is_begun` once its first window is over."""

    is_begun: bool = False
    windows: tuple[tuple[int, int], ...] = ()
    older_windows: int = 0

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RouterShare:
        """Rebuild the counts from `to_dict`'s form.

        :raises KeyError: a count is missing.
        :raises TypeError: a window is invalid.
        :raises ValueError: one isn't a number from 0.
        """
        pairs = [(candidate, stable) for candidate, stable in value["windows"]]
        older = value["older_windows"]
        counts = [older, *(count for pair in pairs for count in pair)]
        if any(not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in counts):
            raise ValueError(f"{counts}: not numbers from 0")
        return cls(bool(value["is_begun"]), tuple(pairs), older)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "is_begun": self.is_begun,
            "windows": [list(pair) for pair in self.windows],
            "older_windows": self.older_windows,
        }

    def plus(self, window: Window) -> RouterShare:
        """Return the counts with one more window; replayed requests pass the router by."""
        if window.source != "users":
            return self
        if not self.is_begun:
            return RouterShare(is_begun=True)
        pair = _sent(window.candidate), _sent(window.stable)
        # A window without requests does not count.
        windows = (*self.windows, pair) if any(pair) else self.windows
        older = self.older_windows + max(0, len(windows) - WINDOWS)
        return RouterShare(True, windows[-WINDOWS:], older)

    def doubt(self, weight: int | None) -> str | None:
        """Return in words that the router does not do what the weight says; None if nothing shows it.

        :param weight: of the step, in percent; None: no step was begun.
        """
        requests = sum(map(sum, self.windows))
        if weight is None or not 0 < weight < 100 or not requests:
            return None
        least, most = least_share(weight), _share(_odds(weight) * TOLERATED_ODDS)
        candidate, stable = self._weighed()
        share = candidate / (candidate + stable)
        nearest = least if share < least else most if share > most else share
        if (candidate + stable) * divergence(share, nearest) <= -math.log(ALPHA):
            return None
        seen = sum(pair[0] for pair in self.windows)
        since = f"in the last {WINDOWS} windows" if self.older_windows else "since the step's first window"
        return (
            f"The router does not do what the status says: at weight {weight} % it sent "
            f"{number(100 * seen / requests)} % of the users to the candidate ({seen} of {requests} requests {since})."
        )

    def _weighed(self) -> tuple[float, float]:
        """Return the candidate's and stable's requests, those of a window far above the others scaled down."""
        sums = [sum(pair) for pair in self.windows]
        candidate = stable = 0.0
        for place, (mine, theirs) in enumerate(self.windows):
            others = sums[:place] + sums[place + 1 :]
            limit = _HEAVIEST * median(others) if others else math.inf
            part = min(1.0, limit / sums[place])
            candidate, stable = candidate + part * mine, stable + part * theirs
        return candidate, stable


def _sent(sample: Sample) -> int:
    return sample.requests if sample.begun is None else sample.begun


def least_share(weight: int) -> float:
    """Return the smallest share of requests that is no fault at a weight (percent, 1 to 99)."""
    return _share(_odds(weight) / TOLERATED_ODDS)


def surely_misses(weight: int | None, requests: int) -> bool:
    """Return whether chance excludes that none of so many requests would have been the candidate's at the weight."""
    if weight is None or not 0 < weight < 100:
        return False
    return requests * divergence(0.0, least_share(weight)) > -math.log(ALPHA)


def divergence(seen: float, expected: float) -> float:
    """Return the Kullback-Leibler divergence of two shares: times the requests it bounds the log of the chance."""
    parts = ((seen, expected), (1 - seen, 1 - expected))
    return sum(one * math.log(one / other) for one, other in parts if one > 0)


def _odds(weight: int) -> float:
    return weight / (100 - weight)


def _share(odds: float) -> float:
    return odds / (1 + odds)
