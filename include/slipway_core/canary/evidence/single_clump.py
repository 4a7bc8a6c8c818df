"""One clump of failures, and what followed it: whether a suspicion that it left is to delay a pass.

Where stable never fails, good answers hardly lower the evidence that a clump has left: "how often, compared with
stable" can't be determined from requests that neither fails. But they do show whether the candidate keeps failing. So
beside the evidence there is a second reading of it, in which the clump was not seen: the wealth before it, multiplied
by a test that begins again after it. It stands for the suspicion, never for the evidence, once enough has followed:

- so many requests that the clump is a hundredth of them (`CLEAN_PER_ERROR` for each of its failures, at most
  `CLEAN_AT_MOST`), and
- so few failures among them that one constant rate does not explain clump and rest (their likelihood ratio reaches
  1/alpha).

One clump, of up to two windows that follow each other, is read so in a canary. A second one meets the test that began
after the first, and stays suspicious. The evidence itself, and so every fail, counts all windows as ever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway_core.canary.hypothesis_tests import HypothesisTests
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName

CLEAN_PER_ERROR, CLEAN_AT_MOST = 100, 1000
_LONGEST_WINDOWS = 2


class SingleClump:
    """The first clump of failures that made users' windows suspicious, and what followed it."""

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self._before = 0.0
        self._windows = self._errors = self._requests = 0
        self._errors_after = self._requests_after = 0
        self._after = HypothesisTests(policy)

    @property
    def is_begun(self) -> bool:
        """Whether there was one."""
        return self._windows > 0

    @property
    def is_over(self) -> bool:
        """Whether enough has followed to read it as one clump."""
        needed = min(CLEAN_PER_ERROR * self._errors, CLEAN_AT_MOST)
        if not self.is_begun or self._requests_after < needed:
            return False
        return self._log_likelihood_ratio() >= -math.log(self._policy.alpha)

    def observe(self, window: Window, before: float, now: float) -> None:
        """Take in a window of users.

        :param before: the evidence of errors before it.
        :param now: and with it.
        """
        crosses = before < self._policy.suspicion_threshold <= now
        continues = self.is_begun and self._requests_after == 0 and self._windows < _LONGEST_WINDOWS
        if crosses or (continues and now > before):
            self._add(window, before, anew=crosses)
        elif self.is_begun:
            self._after.observe(_without_latencies(window))
            self._requests_after += window.candidate.requests
            self._errors_after += window.candidate.errors

    def without(self, users: Mapping[HypothesisName, float]) -> dict[HypothesisName, float]:
        """Return the evidence of users' windows as if the clump had not been, where it is over; else as it is."""
        if not self.is_over:
            return dict(users)
        grown = self._after.evidence()["errors"] / self._policy.shares["errors"]
        return {**users, "errors": min(users["errors"], self._before * grown)}

    def words(self) -> str:
        """Return what was seen, in words."""
        return (
            f"{self._errors} errors in one clump of {self._requests} requests, and {self._errors_after} in the "
            f"{self._requests_after:,} that followed"
        )

    def _add(self, window: Window, before: float, *, anew: bool) -> None:
        if anew:
            self._before, self._windows, self._errors, self._requests = before, 0, 0, 0
        self._windows += 1
        self._errors += window.candidate.errors
        self._requests += window.candidate.requests
        self._errors_after = self._requests_after = 0
        self._after = HypothesisTests(self._policy)

    def _log_likelihood_ratio(self) -> float:
        """Return how much better a rate for the clump and one for the rest explain the failures than one for both."""
        parts = ((self._errors, self._requests), (self._errors_after, self._requests_after))
        if self._errors_after * self._requests >= self._errors * self._requests_after:
            return 0.0
        both = (self._errors + self._errors_after) / (self._requests + self._requests_after)
        return sum(events * math.log(events / count / both) for events, count in parts if events)

    # --- state ---

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {
            "before": self._before,
            "windows": self._windows,
            "errors": self._errors,
            "requests": self._requests,
            "errors_after": self._errors_after,
            "requests_after": self._requests_after,
            "after": self._after.to_dict(),
        }

    @classmethod
    def from_dict(cls, policy: AnalysisPolicy, value: Mapping[str, Any]) -> SingleClump:
        """Rebuild it from `to_dict`'s form.

        :raises ValueError: a number is invalid, or the state is of other tests.
        :raises KeyError: a part is missing.
        :raises TypeError: a part has another form.
        """
        found = cls(policy)
        found._before = float(value["before"])
        found._windows = int(value["windows"])
        found._errors, found._requests = int(value["errors"]), int(value["requests"])
        found._errors_after = int(value["errors_after"])
        found._requests_after = int(value["requests_after"])
        found._after.restore(value["after"])
        counts = (found._windows, found._errors, found._requests, found._errors_after, found._requests_after)
        if not math.isfinite(found._before) or min(counts) < 0:
            raise ValueError("a clump whose counts are not numbers from 0")
        return found


def _without_latencies(window: Window) -> Window:
    return replace(
        window,
        stable=replace(window.stable, latency_buckets={}),
        candidate=replace(window.candidate, latency_buckets={}),
    )
