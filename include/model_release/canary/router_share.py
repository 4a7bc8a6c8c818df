"""Does the router lead as many users to the candidate as the step's weight says? By the requests that it counted.

The status says that a weight is reached; a router that does something else is seen here alone. What it counted is held
against the weight with a tolerance for what is no fault: the counters of two revisions are read at different moments,
and stable may be retried. So the odds of the candidate may be half or double those of the weight. Beyond that the
chance of the counts is bounded by Chernoff's inequality, which is never below the exact binomial probability, and for a
candidate without any request is that probability.

The first window of a step does not count: it may have begun while the step before still had its weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from include.model_release.metrics.samples import Window
from include.model_release.written_numbers import number

# How likely the counts are, at most, where a router that works is said not to.
ALPHA = 1e-6
# Tolerated factor between the candidate's odds and those of the weight.
TOLERATED_ODDS = 2.0


@dataclass(frozen=True)
class RouterShare:
    """Users' requests of a step, as the router counted them by revision; `is_begun` once its first window is over."""

    is_begun: bool = False
    candidate_requests: int = 0
    stable_requests: int = 0

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RouterShare:
        """Rebuild the counts from `to_dict`'s form.

        :raises KeyError: a count is missing.
        :raises ValueError: one is no number from 0.
        """
        counts = [value[key] for key in ("candidate_requests", "stable_requests")]
        if any(not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in counts):
            raise ValueError(f"{counts}: not numbers from 0")
        return cls(bool(value["is_begun"]), *counts)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return dict(vars(self))

    def plus(self, window: Window) -> RouterShare:
        """Return the counts with one more window; replayed requests pass the router by."""
        if window.source != "users":
            return self
        if not self.is_begun:
            return RouterShare(is_begun=True)
        return replace(
            self,
            candidate_requests=self.candidate_requests + window.candidate.requests,
            stable_requests=self.stable_requests + window.stable.requests,
        )

    def doubt(self, weight: int | None) -> str | None:
        """Return in words that the router does not do what the weight says; None where nothing shows it.

        :param weight: of the step, in percent; None: no step was begun.
        """
        seen, requests = self.candidate_requests, self.candidate_requests + self.stable_requests
        if weight is None or not 0 < weight < 100 or not requests:
            return None
        odds = weight / (100 - weight)
        least, most = (_share(odds * factor) for factor in (1 / TOLERATED_ODDS, TOLERATED_ODDS))
        share = seen / requests
        nearest = least if share < least else most if share > most else share
        if requests * _divergence(share, nearest) <= -math.log(ALPHA):
            return None
        return (
            f"The router does not do what the status says: at weight {weight} % it led {number(100 * share)} % of the "
            f"users to the candidate ({seen} of {requests} requests since the step's first window)."
        )


def _share(odds: float) -> float:
    return odds / (1 + odds)


def _divergence(seen: float, expected: float) -> float:
    """Return the Kullback-Leibler divergence of two shares: times the requests it bounds the log of the chance."""
    parts = ((seen, expected), (1 - seen, 1 - expected))
    return sum(one * math.log(one / other) for one, other in parts if one > 0)
