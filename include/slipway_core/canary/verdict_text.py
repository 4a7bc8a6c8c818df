"""A verdict of the canary's judge in words, for a reader who knows no statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from slipway_core.canary.verdict import Statistics, Verdict
from slipway_core.metrics.samples import Sample, Source
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.written_numbers import counted, number

_Name = TypeVar("_Name", bound=str)

HYPOTHESIS_WORDS: dict[str, str] = {
    "errors": "more errors than stable",
    "latency": "slower than stable",
    "error_ceiling": "errors above the ceiling",
    "latency_ceiling": "latency above the ceiling",
}
REPLAYED, STREAMED = "replayed golden requests", "streamed golden requests"
_SOURCE_WORDS: Mapping[str, str] = {"replay": REPLAYED, "stream": STREAMED}
_MEANING = {
    "pass": "The candidate may continue: enough was seen, and nothing speaks against it.",
    "fail": "The candidate is rolled back: this is too unlikely for a version as good as stable. A fail is final.",
    "inconclusive": "Not enough data yet: the candidate is neither cleared nor condemned.",
}


def heading(policy: AnalysisPolicy) -> str:
    """Return the rules of the judge in words."""
    return (
        f"The candidate fails when the evidence against it reaches {number(policy.fail_threshold)}; one that is no "
        f"worse gets there in at most {100 * policy.alpha:g} % of canaries.\nNo worse means {margins(policy)}."
    )


def margins(policy: AnalysisPolicy) -> str:
    """Return what still counts as no worse, in words."""
    ceilings = []
    if policy.error_ceiling_percent is not None:
        ceilings.append(f"at most {policy.error_ceiling_percent:g} % of errors in any case")
    if policy.latency_ceiling_ms is not None:
        answers = f"{100 * policy.latency_quantile:g} % of the answers"
        ceilings.append(f"{answers} within {policy.latency_ceiling_ms:g} ms in any case")
    relative = (
        f"at most {policy.error_margin_percent:g} percentage points more errors than stable in the same windows",
        f"answers at most {policy.latency_margin_percent:g} % slower",
    )
    return ", ".join([*relative, *ceilings])


def explained(number: int, verdict: Verdict, before: Verdict | None) -> str:
    """Return the verdict on window `number` in a few lines; `before` is the one ahead of it, None at the start."""
    lines = []
    step, known = _step(verdict), None if before is None else _step(before)
    if step != known and step[0] is not None:
        lines.append(f"\n{step[0]} % of the traffic, to be watched for {step[1]:g} s")
    elapsed = duration(verdict.statistics.canary.seconds)
    weight = "" if step[0] is None else f", weight {step[0]} %"
    source_name = "" if verdict.window is None else source_words(verdict.window.source)
    source = f" of {source_name}" if source_name else ""
    lines.append(
        f"\nWindow {number}{source}, {elapsed} seen{weight}: {verdict.status.upper()}. {verdict.reason}"
    )
    if verdict.window is not None:
        candidate, stable = verdict.window.candidate, verdict.window.stable
        lines.append(f"  In this window: {_counts('candidate', candidate)}, {_counts('stable', stable)}.")
    lines.append(f"  {against(verdict.statistics)}.")
    return "\n".join(lines)


def source_of(window: Mapping[str, Any] | None) -> Source:
    """Return whose requests a window, as it is recorded, is of."""
    source = "users" if window is None else window.get("source")
    return "replay" if source == "replay" else "stream" if source == "stream" else "users"


def source_words(source: str) -> str:
    """Return what the requests of a window's source are called; "" for users'."""
    return _SOURCE_WORDS.get(source, "")


def conclusion(verdict: Verdict, windows: int, no_data: int) -> str:
    """Return what all windows come to, in words.

    :param verdict: the last one.
    :param windows: how many there were.
    :param no_data: how many of them had no data.
    """
    unseen = f", {no_data} of them without data" if no_data else ""
    seen = counted(windows, "window")
    return f"\nConclusion after {seen}{unseen}: {verdict.status.upper()}. {verdict.reason}\n{meaning(verdict.status)}"


def meaning(status: str) -> str:
    """Return what a verdict means for the candidate."""
    return _MEANING[status]


def against(statistics: Statistics) -> str:
    """Return how far the evidence against the candidate has come, and what it consists of, in words."""
    return against_words(statistics.evidence, statistics.total_evidence, statistics.threshold)


def against_words(evidence: Mapping[_Name, float], total: float, threshold: float) -> str:
    """Return the evidence against the candidate in words: all of it against the threshold, then each test's."""
    parts = ", ".join(
        f"{HYPOTHESIS_WORDS.get(name, name)} {number(value)}" for name, value in by_hypothesis(evidence)
    )
    return f"Evidence against the candidate: {number(total)} of {number(threshold)}" + (
        f" ({parts})" if parts else ""
    )


def by_hypothesis(evidence: Mapping[_Name, float]) -> list[tuple[_Name, float]]:
    """Return the evidence of each hypothesis test, always in the same order; a record sorts its keys."""
    order = [*HYPOTHESIS_WORDS]
    return sorted(evidence.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def duration(seconds: float) -> str:
    """Write seconds as people do: `45 s`, `2 min 5 s`, `1 h 30 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s".removesuffix(" 0 s")
    return f"{whole // 3600} h {whole % 3600 // 60} min".removesuffix(" 0 min")


def _step(verdict: Verdict) -> tuple[int | None, float]:
    return verdict.statistics.weight, verdict.statistics.bake_s


def _counts(revision: str, sample: Sample) -> str:
    errors, requests = sample.errors, sample.requests
    share = f" ({number(100 * errors / requests)} %)" if requests else ""
    unanswered = f", {sample.unanswered:,} of them never answered" if sample.unanswered else ""
    return f"{revision} {errors:,} errors in {requests:,} requests{share}{unanswered}"
