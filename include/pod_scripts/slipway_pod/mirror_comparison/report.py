"""The report of a mirror comparison: what all pairs of answers come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_pod.mirror_comparison.comparison import Difference, MirrorComparison
from slipway_pod.mirror_comparison.requests import Request
from slipway_pod.models.deadlines import Deadlines
from slipway_pod.models.latency import nearest_rank
from slipway_pod.models.protocol import Answer

CLASS_CHANGES_SHOWN = 20


@dataclass
class ComparisonReport:
    """The counts, latencies and largest differences of all pairs of answers so far."""

    worst_kept: int
    counts: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Counter[str]] = field(
        default_factory=lambda: {"stable": Counter(), "candidate": Counter()}
    )
    latencies: dict[str, list[float]] = field(default_factory=lambda: {"stable": [], "candidate": []})
    outputs: dict[str, Counter[str]] = field(default_factory=dict)
    class_changes: Counter[tuple[Any, Any]] = field(default_factory=Counter)
    worst: dict[tuple[str, str], tuple[Difference, int]] = field(default_factory=dict)
    fastest_ms: float | None = None

    @property
    def judged(self) -> int:
        """Return the number of requests that stable answered: on these the candidate can be judged."""
        return self.counts["compared"] + self.counts["candidate_failed"]

    def limit_s(self, least_s: float, at_once: int) -> float:
        """Return how long an answer is waited for, by the fastest one that stable gave; until then the longest.

        :param at_once: how many requests may be under way.
        """
        if self.fastest_ms is None:
            return Deadlines(least_s).first_s()
        return Deadlines(least_s, self.fastest_ms / 1000).limit_s(at_once)

    def add(
        self, request: Request, stable: Answer, candidate: Answer, comparison: MirrorComparison | None
    ) -> None:
        """Count one pair; the comparison is there where both answered."""
        for side, answer in (("stable", stable), ("candidate", candidate)):
            if answer.failure:
                self.failures[side][answer.failure] += 1
        if not stable.failure:
            fastest = stable.latency_ms if self.fastest_ms is None else self.fastest_ms
            self.fastest_ms = min(fastest, stable.latency_ms)
        if comparison is None:
            both = bool(stable.failure and candidate.failure)
            self.counts[
                "both_failed" if both else "stable_failed" if stable.failure else "candidate_failed"
            ] += 1
            return
        self.counts["compared"] += 1
        self.protocols[request.protocol] += 1
        # Of answers only: the latency of a failure says nothing about the model.
        self.latencies["stable"].append(stable.latency_ms)
        self.latencies["candidate"].append(candidate.latency_ms)
        self.counts["differ" if comparison.differences else "equal"] += 1
        for name in comparison.compared:
            self.outputs.setdefault(name, Counter())["compared"] += 1
        for difference in comparison.differences:
            self.outputs[difference.output]["differ"] += 1
            self._keep(request.digest, difference)
        if comparison.classes is not None:
            changes = [pair for pair in comparison.classes if pair[0] != pair[1]]
            self.counts["disagree" if changes else "agree"] += 1
            self.rows["compared"] += len(comparison.classes)
            self.rows["agree"] += len(comparison.classes) - len(changes)
            self.class_changes.update(changes)

    def _keep(self, digest: str, difference: Difference) -> None:
        """Keep the largest differences, each request's and output's once."""
        key = (digest, difference.output)
        known, times = self.worst.get(key, (difference, 0))
        self.worst[key] = (max(known, difference, key=lambda one: one.severity), times + 1)
        if len(self.worst) > self.worst_kept:
            del self.worst[min(self.worst, key=lambda one: self.worst[one][0].severity)]

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON holds it."""
        names = (
            "compared", "equal", "differ", "agree", "disagree", "candidate_failed", "stable_failed", "both_failed",
        )  # fmt: skip
        ordered = sorted(self.worst.items(), key=lambda one: one[1][0].severity, reverse=True)
        changes = self.class_changes.most_common(CLASS_CHANGES_SHOWN)
        return {
            "counts": {name: self.counts[name] for name in names},
            "protocols": {name: self.protocols[name] for name in ("http", "grpc")},
            "rows": {name: self.rows[name] for name in ("compared", "agree")},
            "outputs": {
                name: {"compared": found["compared"], "differ": found["differ"]}
                for name, found in sorted(self.outputs.items())
            },
            "failures": {side: dict(found.most_common()) for side, found in self.failures.items()},
            "latency_ms": {side: quantiles(found) for side, found in self.latencies.items()},
            "class_changes": [
                {"stable": before, "candidate": after, "rows": rows} for (before, after), rows in changes
            ],
            "differences": [
                {"request": digest, **difference.to_json(), "times": times}
                for (digest, _), (difference, times) in ordered
            ],
        }


def quantiles(latencies_ms: Sequence[float]) -> dict[str, float] | None:
    """Return the average and nearest-rank percentiles in milliseconds; None if nothing was measured."""
    if not latencies_ms:
        return None
    ordered = sorted(latencies_ms)
    ranks = {f"p{percent}": nearest_rank(ordered, percent) for percent in (50, 90, 99)}
    return {name: round(value, 3) for name, value in {"avg": sum(ordered) / len(ordered), **ranks}.items()}
