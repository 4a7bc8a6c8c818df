"""The evidence of users' windows: the same windows, earlier ones where stable is thin, and one clump that is over.

Further evidence against a candidate from users' windows belongs here: it takes in each window, and its part
of the wealth is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.canary.evidence.compared import EARLIER_WORDS
from slipway_core.canary.evidence.earlier_windows import Earlier, EarlierWindows
from slipway_core.canary.evidence.single_clump import SingleClump
from slipway_core.canary.hypothesis_tests import HypothesisTests
from slipway_core.canary.totals import Totals
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName

_WORSE_WORDS: dict[HypothesisName, str] = {
    "errors": "it fails more often than stable in the same windows",
    "latency": "it is slower than stable in the same windows",
    "error_ceiling": "its error rate is above the ceiling",
    "latency_ceiling": "its latency is above the ceiling",
}


class UsersEvidence:
    """What users' windows say: `tests` of the same windows, `earlier` of earlier ones, `clump` of one that is over."""

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self.tests = HypothesisTests(policy)
        self.earlier, self.clump = EarlierWindows(policy), SingleClump(policy)

    def begin_step(self, weight: int, bake_s: float, *, raised: bool) -> None:
        """Begin another step of the canary."""
        self.earlier.begin_step()
        self.tests.begin_step(weight, bake_s, raised=raised)

    def observe(self, window: Window, canary: Totals, step: Totals) -> None:
        """Test a window.

        :param canary: the sums of the canary before it, and
        :param step: of its step.
        """
        before = self.tests.evidence()
        judged = self.earlier.observe(
            window,
            self._seen_earlier(canary, step),
            sum(before.values()),
            with_latency=self.tests.tests_latency,
        )
        self.tests.observe(window, latency_judged=judged)
        self.clump.observe(window, before["errors"], self.tests.evidence()["errors"])

    def evidence(self, *, without_clump: bool = False) -> dict[HypothesisName, float]:
        """Return the evidence by test, perhaps as if a clump that is over had not been."""
        same = self.tests.evidence()
        return self.earlier.added_to(self.clump.without(same) if without_clump else same)

    def doubt(self, canary: Totals, step: Totals) -> str | None:
        """Return in words what was not judged yet, or exceeds what earlier windows allow; None if nothing does."""
        return self.earlier.doubt(self._seen_earlier(canary, step)) or self.tests.latency_doubt()

    def compared(self, canary: Totals, step: Totals) -> int:
        """Return how many of stable's requests this step's were compared with, up to what is needed."""
        needed = self._policy.minimum_candidate_requests
        before = canary.stable_requests - step.stable_requests
        tested = step.stable_requests + self.earlier.step_requests
        return max(step.stable_requests, min(before, tested) if before >= needed else 0)

    def worse_words(self, name: HypothesisName) -> str:
        """Return what a test has found, in words."""
        if self.earlier.is_more_than(self.tests.evidence(), name):
            return EARLIER_WORDS[name]
        return _WORSE_WORDS[name]

    def _seen_earlier(self, canary: Totals, step: Totals) -> Earlier:
        return Earlier.of(canary, step, self.tests.past_latencies)

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready; what has not begun is null."""
        return {
            "tests": self.tests.to_dict(),
            "earlier": self.earlier.to_dict() if self.earlier.is_begun else None,
            "clump": self.clump.to_dict() if self.clump.is_begun else None,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over a state of `to_dict`, among other keys.

        :raises ValueError: a number is invalid, or the state is of other tests.
        :raises KeyError: a part of it is missing.
        :raises TypeError: a part of it has another form.
        """
        self.tests.restore(value["tests"])
        if value["earlier"] is not None:
            self.earlier = EarlierWindows.from_dict(self._policy, value["earlier"])
        if value["clump"] is not None:
            self.clump = SingleClump.from_dict(self._policy, value["clump"])
