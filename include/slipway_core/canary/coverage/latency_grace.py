"""When a candidate's latencies count: not while it warms up after a raise.

Each raise of the weight may start pods, and a pod that has just loaded its model is slow: its caches are empty, its
code is not compiled. So latencies do not count in the first windows of a raise, nor after them until the candidate has
caught up with stable, at most for `latency_grace_s`, and in a short step for no longer than twice its bake. What is
left out depends on earlier windows alone, so all that is tested afterwards stays fair.

It has caught up when, over a stretch of windows with enough requests, no more of its answers were slow than of stable's
in the same stretch, within the margin and one standard error, at each of a few levels. One that stays slow never gets
there, and is judged when its time is over. Until enough was judged after that, the step does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slipway_core.canary.coverage.histogram_bounds import on_bounds
from slipway_core.canary.latency import above, above_within, add_histograms, bounds_at
from slipway_core.canary.latency_totals import histogram_from_list, histogram_to_list
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy

# Where it must have caught up, and over how many of its requests that is looked at.
_LEVELS = (0.5, 0.75, 0.9)
_STRETCH_REQUESTS = 50
# Of the minimum of candidate requests, what must have been judged by latency.
_JUDGED_SHARE = 0.5
# A step that bakes for seconds is not prolonged by minutes.
_LONGEST_BAKES = 2.0


class LatencyGrace:
    """The grace of one source's windows. `windows` are those with candidate requests since the last raise."""

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self.windows = 0
        self._is_timed = self._caught_up = False
        self._seen_s, self._longest_s = 0.0, policy.latency_grace_s
        self._stable: dict[float, int] = {}
        self._candidate: dict[float, int] = {}
        self._comparable = self._judged = self._judged_windows = 0

    @property
    def is_over(self) -> bool:
        """Whether latencies count in the next window."""
        if self.windows < self._policy.latency_grace_windows:
            return False
        return not self._is_timed or self._caught_up or self._seen_s >= self._longest_s

    def begin_step(self, bake_s: float, *, raised: bool) -> None:
        """Begin another step; a grace begins with it where it raises the weight.

        :param bake_s: for how long the step is watched at least; 0: nobody knows.
        """
        self._comparable = self._judged = self._judged_windows = 0
        if not raised:
            return
        self.windows, self._seen_s = 0, 0.0
        self._is_timed, self._caught_up = self._policy.latency_grace_s > 0, False
        self._longest_s = self._policy.latency_grace_s
        if bake_s > 0:
            self._longest_s = min(self._longest_s, _LONGEST_BAKES * bake_s)
        self._stable, self._candidate = {}, {}

    def observe(self, window: Window, past: Mapping[float, int], *, judged: bool) -> None:
        """Take in a window.

        :param past: stable's histogram up to and including it.
        :param judged: whether its latencies were tested.
        """
        requests = window.candidate.requests
        if requests > 0 and window.candidate.latency_buckets and past:
            self._comparable += requests
            self._judged += requests if judged else 0
            self._judged_windows += judged
        if requests == 0 and self.windows == 0:
            return  # nobody has asked it since the raise
        is_first = self.windows < self._policy.latency_grace_windows
        self.windows += requests > 0
        self._seen_s += window.seconds
        if self._is_timed and not self._caught_up and not is_first:
            self._look(window, past)

    def doubt(self) -> str | None:
        """Return in words that too little was judged by latency in this step; None if none is lacking."""
        needed = math.ceil(_JUDGED_SHARE * self._policy.minimum_candidate_requests)
        if not self._is_timed or self._comparable == 0:
            return None
        # No window decides alone, so neither may one alone say that nothing is found.
        if self._judged >= needed and self._judged_windows >= self._policy.windows_to_fail:
            return None
        if self.is_over:
            return (
                f"Latency is not judged yet: {self._judged} candidate requests in {self._judged_windows} windows since "
                f"it had time to warm up, {needed} in {self._policy.windows_to_fail} are needed."
            )
        return (
            "Latency is not judged yet: the candidate is slower than stable and may still be warming up "
            f"({self._seen_s:.0f} s of at most {self._longest_s:g} s since the raise)."
        )

    def _look(self, window: Window, past: Mapping[float, int]) -> None:
        """Look whether the candidate has caught up, once a stretch has enough requests."""
        # Other bounds: the candidate has caught up only where it has however its buckets are read.
        stable = on_bounds(window.stable.latency_buckets, past, "fast")
        candidate = on_bounds(window.candidate.latency_buckets, past, "slow")
        if not stable or {*stable} != {*candidate}:
            return
        if {*stable} != {*self._stable}:
            self._stable, self._candidate = {}, {}
        self._stable = add_histograms(self._stable, stable)
        self._candidate = add_histograms(self._candidate, candidate)
        if sum(self._candidate.values()) < _STRETCH_REQUESTS:
            return
        self._caught_up = self._is_level(past)
        self._stable, self._candidate = {}, {}

    def _is_level(self, past: Mapping[float, int]) -> bool:
        # Where stable is thin, what it did before stands for it.
        enough = sum(self._stable.values()) >= _STRETCH_REQUESTS
        reference = self._stable if enough else past
        bounds = [bound for bound in bounds_at(past, _LEVELS) if bound is not None]
        if not bounds or {*reference} != {*self._candidate}:
            return False
        margin = 1.0 + self._policy.latency_margin_percent / 100.0
        for bound in bounds:
            slow, tolerated = above(self._candidate, bound), above_within(reference, bound / margin)
            share = tolerated.events / tolerated.count
            error = math.sqrt(share * (1.0 - share) * (1 / slow.count + 1 / tolerated.count))
            if slow.events / slow.count > share + error:
                return False
        return True

    # --- state ---

    def to_dict(self) -> dict[str, Any] | None:
        """Return the state beside `windows`, JSON-ready; None if no raise was begun."""
        if not self._is_timed:
            return None
        return {
            "caught_up": self._caught_up,
            "seen_s": self._seen_s,
            "longest_s": self._longest_s,
            "stable": histogram_to_list(self._stable),
            "candidate": histogram_to_list(self._candidate),
            "comparable": self._comparable,
            "judged": self._judged,
            "judged_windows": self._judged_windows,
        }

    def restore(self, windows: int, value: Mapping[str, Any] | None) -> None:
        """Take over a state; None if raises have no grace.

        :raises ValueError: a number is invalid.
        :raises KeyError: a part is missing.
        :raises TypeError: a part has another form.
        """
        self.windows, self._is_timed = windows, value is not None
        if value is None:
            return
        self._caught_up, self._seen_s = bool(value["caught_up"]), float(value["seen_s"])
        self._longest_s = float(value["longest_s"])
        self._stable = histogram_from_list(value["stable"])
        self._candidate = histogram_from_list(value["candidate"])
        self._comparable, self._judged = int(value["comparable"]), int(value["judged"])
        self._judged_windows = int(value["judged_windows"])
        if not math.isfinite(self._seen_s + self._longest_s):
            raise ValueError("a grace that is not a number of seconds")
