"""Was latency compared? A pass that says nothing against a candidate must have looked at its latencies.

A source that has no histogram of either revision compares none, which its declaration says (`metrics/visibility.py`).
Where it has one, the latencies of a step count as compared when the histograms of enough answers told how much slower
the candidate is; see `histogram_bounds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from include.model_release.canary.coverage.histogram_bounds import tells
from include.model_release.metrics.samples import Sample, Window


@dataclass(frozen=True)
class LatencySeen:
    """Of a step, by users' windows: the candidate's answers that were compared, those that were not, and a reason.

    `is_known`: a histogram of any revision was seen.
    """

    is_known: bool = False
    compared: int = 0
    not_compared: int = 0
    reason: str = ""

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> LatencySeen:
        """Rebuild it from `to_dict`'s form.

        :raises ValueError: a count is no number from 0.
        """
        counts = [value["compared"], value["not_compared"]]
        if any(not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in counts):
            raise ValueError(f"{counts}: not numbers from 0")
        return cls(bool(value["is_known"]), *counts, str(value["reason"]))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return dict(vars(self))

    def plus(self, window: Window, quantile: float) -> LatencySeen:
        """Return it with one more window; `quantile` is up to where latencies are compared."""
        stable, candidate = window.stable, window.candidate
        answers = candidate.requests - candidate.unanswered
        if window.source != "users" or not answers or not stable.requests:
            return self
        known = replace(
            self, is_known=self.is_known or bool(stable.latency_buckets or candidate.latency_buckets)
        )
        if _has_no_answer(stable) or _has_no_answer(candidate):
            # Histograms may come a moment after the counts.
            lacking = "stable" if _has_no_answer(stable) else "candidate"
            return replace(
                known,
                not_compared=self.not_compared + answers,
                reason=f"the metrics source shows no latency of the {lacking}",
            )
        if tells(candidate.latency_buckets, stable.latency_buckets, quantile):
            return replace(known, compared=self.compared + answers)
        return replace(
            known,
            not_compared=self.not_compared + answers,
            reason="the bounds of the two histograms do not tell how much slower one is "
            f"(stable {_bounds(stable)}; candidate {_bounds(candidate)})",
        )

    def doubt(self) -> str | None:
        """Return in words that latency was not compared where it could be; None where it was, or cannot be at all."""
        if not self.is_known or self.compared >= self.not_compared:
            return None
        return (
            f"Latency was not compared for {self.not_compared} of the candidate's "
            f"{self.compared + self.not_compared} answers in this step: {self.reason}."
        )


def _has_no_answer(sample: Sample) -> bool:
    return not sum(sample.latency_buckets.values())


def _bounds(sample: Sample) -> str:
    bounds = [f"{bound:g}" for bound in sample.latency_buckets]
    shown = bounds if len(bounds) <= 6 else [*bounds[:3], "…", *bounds[-2:]]
    return f"{', '.join(shown)} ms"
