"""The judge of a canary: windows in, verdicts out, nothing else.

    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(weight=5, bake_s=60)
    verdict = judge.observe(Window(seconds=10, stable=Sample(...), candidate=Sample(...)))

It holds a stake of 1, divided among questions: are errors more frequent than stable's *in the same window* by
more than the margin; are answers slower than stable's by more than the margin, at some levels of the
distribution; and, if the policy names ceilings, are they exceeded. Each part is bet against "no"
(`evidence.py`), over the whole canary, steps included; the sum of the fortunes is the evidence. When it
reaches 1/alpha the candidate fails, and a fail is final. The chance to fail a candidate that is no worse,
over the whole canary and however often it is looked at, is at most alpha.

What it cannot do: a difference within the margin is never found, by design; a difference just beyond it takes
long; between two bounds of a histogram it sees no latency; and where failures come in clumps
(`burst_correlation`, `dispersion.py`) a window is worth at most 1/correlation requests. Clumps that last over
several windows and hit the candidate alone look like a fault, because for users they are one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from include.model_release.analysis_policy import AnalysisPolicy
from include.model_release.canary_plan import CanaryPlan, CanaryStep, Decision, decide, exposure_spent
from include.model_release.errors import SlipwayError
from include.model_release.questions import Questions
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
    "exposure_spent",
]

Status = Literal["pass", "fail", "inconclusive"]

_STATE_VERSION = 2

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
        self._questions = Questions(policy)

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
            self._questions.ask(window)
        self._step.add(window)
        self._canary.add(window)
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

    # --- judgement ---

    def _judge(self) -> tuple[Status, str]:
        evidence, threshold = self._questions.evidence(), self.policy.fail_threshold
        total = sum(evidence.values())
        worst = _FAMILY_WORDS[max(evidence, key=lambda family: evidence[family])]
        if self._failed is None and total >= threshold:
            self._failed = (
                f"The candidate fails: {worst} ({self._rates()}; evidence {total:.3g}, "
                f"threshold {threshold:.3g})."
            )
        if self._failed is not None:
            return "fail", self._failed
        lacking = self._lacking()
        if lacking:
            return "inconclusive", lacking
        if total >= self.policy.suspicion_threshold:
            return "inconclusive", (
                f"Suspicious, not sure: perhaps {worst} ({self._rates()}; evidence "
                f"{total:.3g} of {threshold:.3g})."
            )
        if self._questions.no_worse() >= threshold:
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
        evidence = self._questions.evidence()
        return {
            "evidence": evidence,
            "total_evidence": sum(evidence.values()),
            "threshold": self.policy.fail_threshold,
            "no_worse": self._questions.no_worse(),
            "no_worse_threshold": self.policy.fail_threshold,
            "correlation": self._questions.correlation(),
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
                "questions": self._questions.to_dict(),
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
            judge._questions.restore(state["questions"])
        except (ValueError, KeyError, TypeError) as error:
            raise SlipwayError(
                "the saved state of the canary's judge cannot be read",
                expected=f"JSON as CanaryJudge.to_json writes it, state version {_STATE_VERSION}",
                found=f"{type(error).__name__}: {error}",
                remedy="roll the canary back; without its judge it cannot go on",
            ) from error
        return judge
