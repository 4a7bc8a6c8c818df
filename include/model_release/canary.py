"""The judge of a canary: windows in, verdicts out, nothing else.

    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(weight=5, bake_s=60)
    verdict = judge.observe(Window(seconds=10, stable=Sample(...), candidate=Sample(...)))

It keeps one purse of bets (`evidence.py`) for each question, over the whole canary, steps included. A purse
that reaches its threshold fails the candidate, and a fail is final. Questions: are errors more frequent than
stable's *in the same window* by more than the margin; are answers slower than stable's by more than the
margin (at the median, the 90th percentile and the policy's quantile); and, if the policy names ceilings, are
they exceeded. The chance to fail a candidate that is no worse, over the whole canary and however often it is
looked at, is at most alpha.

What it cannot do: a difference within the margin is never found, by design; a difference just beyond it takes
long; latency is seen with the resolution of the histogram's buckets; and with clumped failures
(`burst_correlation`) one window is worth at most 1/burst_correlation requests, so much traffic in few, long
windows is used less well than in many short ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from include.model_release.analysis_policy import AnalysisPolicy
from include.model_release.canary_plan import CanaryPlan, CanaryStep, Decision, decide
from include.model_release.errors import SlipwayError
from include.model_release.evidence import (
    DIFFERENCES,
    Purse,
    Tally,
    cap_for,
    no_worse_bet,
    one_rate_bets,
    two_rate_bets,
)
from include.model_release.latency import (
    above,
    add_histograms,
    ceiling_bound,
    comparison_at,
)
from include.model_release.samples import Counters, Sample, Window, counters_delta

__all__ = [
    "AnalysisPolicy",
    "CanaryJudge",
    "CanaryPlan",
    "CanaryStep",
    "Counters",
    "Decision",
    "Sample",
    "Verdict",
    "Window",
    "counters_delta",
    "decide",
]

Status = Literal["pass", "fail", "inconclusive"]

# Where the evidence stands at the start. Above it the odds are against the candidate, and a pass waits for more.
SUSPICION = 1.0
# What is assumed of stable before it has been seen: half an error in a hundred requests (0.5 %). Only speed
# depends on it.
_PRIOR_ERRORS, _PRIOR_REQUESTS = 0.5, 100.0
_STATE_VERSION = 1

_FAMILY_WORDS = {
    "errors": "it fails more often than stable in the same windows",
    "latency": "it is slower than stable in the same windows",
    "error_ceiling": "its error rate is above the ceiling",
    "latency_ceiling": "its latency is above the ceiling",
}


@dataclass(frozen=True)
class Verdict:
    """What the judge thinks after a window, with everything it takes to compute it again.

    `statistics` holds evidence and threshold by question, and the totals of step and canary; `window` is the
    input (None when the metrics source was `blind`, which is never a pass).
    """

    status: Status
    reason: str
    statistics: dict[str, Any] = field(default_factory=dict)
    window: dict[str, Any] | None = None
    blind: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            "status": self.status,
            "reason": self.reason,
            "statistics": self.statistics,
            "window": self.window,
            "blind": self.blind,
        }


@dataclass
class _Totals:
    """Sums over windows of both revisions."""

    seconds: float = 0.0
    windows: int = 0
    stable_requests: int = 0
    stable_errors: int = 0
    candidate_requests: int = 0
    candidate_errors: int = 0

    def add(self, window: Window) -> None:
        self.seconds += window.seconds
        self.windows += 1
        self.stable_requests += window.stable.requests
        self.stable_errors += window.stable.errors
        self.candidate_requests += window.candidate.requests
        self.candidate_errors += window.candidate.errors

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class CanaryJudge:
    """A fold over windows; `to_json` and `from_json` carry it over a restart without changing a later
    verdict.
    """

    def __init__(self, policy: AnalysisPolicy) -> None:
        self.policy = policy
        self.weight: int | None = None
        self.bake_s = 0.0
        self._step = _Totals()
        self._canary = _Totals()
        self._failed: str | None = None
        self._blind_windows = 0
        self._candidate_windows = 0
        self._stable_histogram: dict[float, int] = {}
        cap = cap_for(policy.fail_threshold, len(DIFFERENCES), policy.windows_to_fail)
        self._purses = {name: Purse(len(DIFFERENCES), cap) for name in self._purse_names()}
        self._no_worse = Purse(1, math.inf)

    def begin_step(self, weight: int, bake_s: float) -> None:
        """Begin a step at `weight` percent that is watched for `bake_s` seconds; evidence from earlier steps
        is kept.
        """
        self.weight, self.bake_s = weight, float(bake_s)
        self._step = _Totals()

    def observe(self, window: Window) -> Verdict:
        """Take in one window and judge all that was seen so far."""
        self._blind_windows = 0
        if self._failed is None:
            self._bet_on_errors(window)
            self._bet_on_latency(window)
        self._step.add(window)
        self._canary.add(window)
        if window.candidate.requests > 0:
            self._candidate_windows += 1
        self._stable_histogram = self._with_history(window.stable.latency_buckets)
        status, reason = self._judge()
        return Verdict(status, reason, self._statistics(), window.to_dict())

    def observe_failure(self, reason: str) -> Verdict:
        """Take note that the metrics source told nothing. No evidence, no bake time: being blind is not being
        well.
        """
        self._blind_windows += 1
        if self._failed is not None:
            return Verdict("fail", self._failed, self._statistics(), blind=True)
        told = f"The metrics source could not be read ({self._blind_windows} in a row): {reason}"
        return Verdict("inconclusive", told, self._statistics(), blind=True)

    # --- evidence ---

    def _bet_on_errors(self, window: Window) -> None:
        stable = Tally(window.stable.errors, window.stable.requests)
        candidate = Tally(window.candidate.errors, window.candidate.requests)
        if candidate.count <= 0:
            return
        rho, policy = self.policy.burst_correlation, self.policy
        if stable.count > 0:
            margin = policy.error_margin_percent / 100.0
            guess = (self._canary.stable_errors + _PRIOR_ERRORS) / (
                self._canary.stable_requests + _PRIOR_REQUESTS
            )
            self._purses["errors"].bet(
                two_rate_bets(stable, candidate, stable_guess=guess, margin=margin, correlation=rho)
            )
            self._no_worse.bet(
                no_worse_bet(stable, candidate, stable_guess=guess, margin=margin, correlation=rho)
            )
        if policy.error_ceiling_percent is not None:
            limit = policy.error_ceiling_percent / 100.0
            self._purses["error_ceiling"].bet(one_rate_bets(candidate, limit=limit, correlation=rho))

    def _bet_on_latency(self, window: Window) -> None:
        buckets = window.candidate.latency_buckets
        if sum(buckets.values()) <= 0 or self._candidate_windows < self.policy.latency_grace_windows:
            return
        for quantile in self._quantiles():
            self._bet_on_quantile(window, quantile)
        if self.policy.latency_ceiling_ms is None:
            return
        bound = ceiling_bound(buckets, self.policy.latency_ceiling_ms)
        if bound is not None:
            self._purses["latency_ceiling"].bet(
                one_rate_bets(
                    above(buckets, bound),
                    limit=1.0 - self.policy.latency_quantile,
                    correlation=self.policy.burst_correlation,
                )
            )

    def _bet_on_quantile(self, window: Window, quantile: float) -> None:
        # The bounds come from earlier windows alone: choosing them from the window they judge would be
        # cheating.
        past, stable = self._stable_histogram, window.stable.latency_buckets
        if sum(past.values()) * (1.0 - quantile) < 1.0 or sum(stable.values()) <= 0:
            return
        chosen = comparison_at(past, quantile, self.policy.latency_margin_percent / 100.0)
        bounds = {*window.stable.latency_buckets} & {*window.candidate.latency_buckets}
        if chosen is None or not {chosen.stable_bound_ms, chosen.candidate_bound_ms} <= bounds:
            return
        seen = above(past, chosen.stable_bound_ms)
        self._purses[_latency_purse(quantile)].bet(
            two_rate_bets(
                above(stable, chosen.stable_bound_ms),
                above(window.candidate.latency_buckets, chosen.candidate_bound_ms),
                stable_guess=(seen.events + 0.5) / (seen.count + 1.0),
                margin=0.0,
                correlation=self.policy.burst_correlation,
            )
        )

    def _with_history(self, buckets: Mapping[float, int]) -> dict[float, int]:
        if not buckets:
            return self._stable_histogram
        if self._stable_histogram and {*buckets} != {*self._stable_histogram}:
            return dict(
                buckets
            )  # The source has other buckets now; the old ones cannot be compared with them.
        return add_histograms(self._stable_histogram, buckets)

    def _quantiles(self) -> tuple[float, ...]:
        return tuple(sorted({0.5, 0.9, self.policy.latency_quantile}))

    def _purse_names(self) -> list[str]:
        others = [family for family in self.policy.families if family != "latency"]
        return others + [_latency_purse(quantile) for quantile in self._quantiles()]

    def _evidence(self) -> dict[str, float]:
        """Return the evidence by question; that of latency is the mean over its quantiles, fair as each of
        them is.
        """
        found = {}
        for family in self.policy.families:
            names = [name for name in self._purses if name == family or name.startswith(f"{family}@")]
            found[family] = sum(self._purses[name].wealth for name in names) / len(names)
        return found

    # --- judgement ---

    def _judge(self) -> tuple[Status, str]:
        evidence, threshold = self._evidence(), self.policy.fail_threshold
        worst = max(evidence, key=lambda family: evidence[family])
        if self._failed is None and evidence[worst] >= threshold:
            self._failed = (
                f"The candidate fails: {_FAMILY_WORDS[worst]} ({self._rates()}; "
                f"evidence {evidence[worst]:.3g}, threshold {threshold:.3g})."
            )
        if self._failed is not None:
            return "fail", self._failed
        lacking = self._lacking()
        if lacking:
            return "inconclusive", lacking
        if evidence[worst] > SUSPICION:
            return "inconclusive", (
                f"Suspicious, not sure: perhaps {_FAMILY_WORDS[worst]} ({self._rates()}; evidence "
                f"{evidence[worst]:.3g} of {threshold:.3g})."
            )
        if self._no_worse.wealth >= 1.0 / self.policy.alpha:
            return "pass", f"Shown to be no worse than stable beyond the margin ({self._rates()})."
        if self._step.seconds < self.bake_s:
            left_s = self.bake_s - self._step.seconds
            return (
                "inconclusive",
                f"Nothing against the candidate so far; {left_s:.0f} s of the bake are left.",
            )
        return "pass", f"The bake is over with no evidence against the candidate ({self._rates()})."

    def _lacking(self) -> str | None:
        needed, step, canary = self.policy.minimum_candidate_requests, self._step, self._canary
        if step.candidate_requests < needed:
            had = f"{step.candidate_requests} candidate requests in this step"
            return f"Too little data: {had}, {needed} are needed."
        if canary.stable_requests < needed:
            return (
                f"Too little to compare with: {canary.stable_requests} stable requests, {needed} are needed."
            )
        return None

    def _rates(self) -> str:
        total = self._canary
        return (
            f"candidate {total.candidate_errors} errors in {total.candidate_requests}, "
            f"stable {total.stable_errors} in {total.stable_requests}"
        )

    def _statistics(self) -> dict[str, Any]:
        evidence = self._evidence()
        return {
            "evidence": evidence,
            "threshold": self.policy.fail_threshold,
            "no_worse_evidence": self._no_worse.wealth,
            "no_worse_threshold": 1.0 / self.policy.alpha,
            "weight": self.weight,
            "bake_s": self.bake_s,
            "step": self._step.to_dict(),
            "canary": self._canary.to_dict(),
            "blind_windows": self._blind_windows,
        }

    # --- state ---

    def to_json(self) -> str:
        """Return policy and state as JSON text."""
        return json.dumps(
            {
                "state_version": _STATE_VERSION,
                "policy": self.policy.to_dict(),
                "weight": self.weight,
                "bake_s": self.bake_s,
                "step": self._step.to_dict(),
                "canary": self._canary.to_dict(),
                "failed": self._failed,
                "blind_windows": self._blind_windows,
                "candidate_windows": self._candidate_windows,
                "stable_histogram": [
                    [_finite(bound), count] for bound, count in self._stable_histogram.items()
                ],
                "purses": {name: purse.to_dict() for name, purse in self._purses.items()},
                "no_worse": self._no_worse.to_dict(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> CanaryJudge:
        """Rebuild a judge from `to_json`'s text; raises SlipwayError if it is not such a text."""
        try:
            state = json.loads(text)
            if state["state_version"] != _STATE_VERSION:
                raise ValueError(f"state version {state['state_version']}")
            judge = cls(AnalysisPolicy.from_mapping(state["policy"]))
            judge.weight, judge.bake_s = state["weight"], float(state["bake_s"])
            judge._step, judge._canary = _Totals(**state["step"]), _Totals(**state["canary"])
            judge._failed, judge._blind_windows = state["failed"], int(state["blind_windows"])
            judge._candidate_windows = int(state["candidate_windows"])
            judge._stable_histogram = {
                math.inf if bound is None else float(bound): count
                for bound, count in state["stable_histogram"]
            }
            judge._purses = {name: Purse.from_dict(state["purses"][name]) for name in judge._purse_names()}
            judge._no_worse = Purse.from_dict(state["no_worse"])
        except (ValueError, KeyError, TypeError) as error:
            raise SlipwayError(
                "the saved state of the canary's judge cannot be read",
                expected=f"JSON as CanaryJudge.to_json writes it, state version {_STATE_VERSION}",
                found=f"{type(error).__name__}: {error}",
                remedy="roll the canary back; without its judge it cannot go on",
            ) from error
        return judge


def _latency_purse(quantile: float) -> str:
    return f"latency@{quantile:g}"


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
