"""Was latency compared? A pass that says nothing against a candidate must have looked at its latencies.

A source that has no histogram of either revision compares none, which its declaration says (`metrics/visibility.py`).
Where it has one, it must hold the answers of both; where their bounds differ, they must tell how much slower the
candidate is (`histogram_bounds.py`); and a ceiling must lie within the bounds, or all answers below the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway_core.canary.coverage.histogram_bounds import tells
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy

# Histograms may come a moment after the counts: so many answers may lack in them.
_MAY_LACK = 10


@dataclass(frozen=True)
class LatencySeen:
    """Of a step, by users' windows: counts of answers.

    :param answers: the candidate's, and
    :param timed: those of them that are in its histogram; likewise of stable.
    :param compared: the candidate's in windows whose histograms tell of each other, and
    :param not_compared: in windows whose histograms do not, with the bounds of the last one.
    :param beyond: the candidate's that are above the last bound, where no bound is as high as the ceiling.
    """

    answers: int = 0
    timed: int = 0
    stable_answers: int = 0
    stable_timed: int = 0
    compared: int = 0
    not_compared: int = 0
    beyond: int = 0
    bounds: str = ""

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> LatencySeen:
        """Rebuild it from `to_dict`'s form.

        :raises ValueError: a count isn't a number from 0, or is missing.
        :raises TypeError: there is one of another name.
        """
        if missing := cls.__dataclass_fields__.keys() - value.keys():
            raise ValueError(f"{', '.join(sorted(missing))}: missing")
        counts = {name: count for name, count in value.items() if name != "bounds"}
        if any(not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in counts.values()):
            raise ValueError(f"{counts}: not numbers from 0")
        return cls(**counts, bounds=str(value["bounds"]))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return dict(vars(self))

    def plus(self, window: Window, policy: AnalysisPolicy) -> LatencySeen:
        """Return it with one more window; replays are timed by who sends them."""
        if window.source != "users":
            return self
        stable, candidate = window.stable, window.candidate
        seen = replace(
            self,
            answers=self.answers + candidate.requests - candidate.unanswered,
            timed=self.timed + _timed(candidate),
            stable_answers=self.stable_answers + stable.requests - stable.unanswered,
            stable_timed=self.stable_timed + _timed(stable),
            beyond=self.beyond + _beyond(candidate, policy.latency_ceiling_ms),
        )
        if not _timed(stable) or not _timed(candidate):
            return seen
        if tells(candidate.latency_buckets, stable.latency_buckets, policy.latency_quantile):
            return replace(seen, compared=self.compared + _timed(candidate))
        return replace(
            seen,
            not_compared=self.not_compared + _timed(candidate),
            bounds=f"stable {_bounds(stable)}; candidate {_bounds(candidate)}",
        )

    def doubt(self, policy: AnalysisPolicy) -> str | None:
        """Return in words what of latency was not seen where it could be; None if all was, or nothing can be."""
        if not self.timed and not self.stable_timed:
            return None
        of_both = (
            ("candidate", self.answers, self.timed),
            ("stable", self.stable_answers, self.stable_timed),
        )
        for whose, answers, timed in of_both:
            if answers - timed > _MAY_LACK and 2 * timed < answers:
                return (
                    f"Latency was not compared: the metrics source shows the latency of {timed} of {answers} answers "
                    f"of the {whose} in this step."
                )
        if self.compared < self.not_compared:
            return (
                "Latency was not compared: the bounds of the two histograms do not show how much slower one is "
                f"({self.bounds})."
            )
        if self.beyond > (1 - policy.latency_quantile) * self.timed:
            return (
                f"{self.beyond} of the candidate's {self.timed} answers took longer than the last bound of the "
                f"histogram: so it is unknown whether they keep the ceiling of {policy.latency_ceiling_ms:g} ms."
            )
        return None


def _timed(sample: Sample) -> int:
    return sum(sample.latency_buckets.values())


def _beyond(sample: Sample, ceiling_ms: float | None) -> int:
    """Return the answers above the last bound, where the ceiling is above it too."""
    last = max((bound for bound in sample.latency_buckets if math.isfinite(bound)), default=math.inf)
    return sample.latency_buckets.get(math.inf, 0) if ceiling_ms is not None and ceiling_ms > last else 0


def _bounds(sample: Sample) -> str:
    bounds = [f"{bound:g}" for bound in sample.latency_buckets]
    shown = bounds if len(bounds) <= 6 else [*bounds[:3], "…", *bounds[-2:]]
    return f"{', '.join(shown)} ms"
