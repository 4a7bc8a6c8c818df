"""The benchmark's page: what was measured, what it says against the limits and against stable."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from slipway_core.gates.benchmark.comparison import FigureComparison
from slipway_core.gates.benchmark.result import BenchmarkResult, Measurement, Role
from slipway_core.gates.benchmark.verdict import BenchmarkVerdict
from slipway_core.reports.benchmark.charts import (
    Change,
    Series,
    changes_chart,
    curve_chart,
    rounds_chart,
)
from slipway_core.reports.html_page import render_page
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.release_file import Benchmark

T = TypeVar("T")
_SIDES: tuple[Role, ...] = ("candidate", "stable")
_COLOURS = {"met": "good", "not_met": "bad"}


@dataclass(frozen=True)
class BenchmarkedVersion:
    """Whose benchmark it is. `created_at` is an ISO 8601 time in UTC."""

    model: str
    version: int
    release_id: str
    created_at: str


@dataclass(frozen=True)
class _Level:
    """Medians over the rounds of one side at one level of load; None if nothing was answered."""

    load: str
    side: str
    requests: int
    errors: int
    throughput_rps: float | None
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_p50_ms: float | None
    itl_p99_ms: float | None
    output_tokens_per_s: float | None


def render_benchmark_html(
    subject: BenchmarkedVersion, benchmark: Benchmark, result: BenchmarkResult, verdict: BenchmarkVerdict
) -> str:
    """Return the page for what a benchmark has measured and what the gate says of it."""
    relative = [one for one in verdict.comparisons if one.decision is not None]
    levels = [_level(result, load, side) for load in result.loads for side in _SIDES if result.of(side, load)]
    return render_page(
        "benchmark/page.html.j2",
        subject=subject,
        benchmark=benchmark,
        result=result,
        verdict=verdict,
        relative=relative,
        absolute=[one for one in verdict.comparisons if one.decision is None],
        levels=levels,
        mine=next((one for one in levels if one.side == "candidate"), None),
        theirs=next((one for one in levels if one.side == "stable"), None),
        has_text=any(one.ttft_p50_ms is not None or one.output_tokens_per_s is not None for one in levels),
        changes=_changes(relative, benchmark),
        rounds=_rounds(result),
        curve=_curve(result),
    )


def _changes(relative: list[FigureComparison], benchmark: Benchmark) -> str:
    margin = benchmark.max_regression_percent
    drawn = [
        Change(
            name=one.figure.removesuffix(" against stable"),
            change=one.change_percent,
            low=one.change_low_percent,
            high=one.change_high_percent,
            limit=-margin if one.figure.startswith("throughput") else margin,
            colour=_COLOURS.get(one.decision or "", "ink"),
        )
        for one in relative
        if one.change_percent is not None
    ]
    description = "; ".join(one.sentence for one in relative)
    return changes_chart(drawn, description) if drawn else ""


def _rounds(result: BenchmarkResult) -> str:
    load = result.loads[0]
    series = [
        Series(side, f"{side}, p50", points)
        for side in _SIDES
        if (points := sorted((float(one.round), one.p50_ms) for one in result.of(side, load) if one.answered))
    ]
    enough = any(len(one.points) > 1 for one in series)
    return rounds_chart(series, f"The median latency of each round at {load.label}.") if enough else ""


def _curve(result: BenchmarkResult) -> str:
    """Return the curve of a sweep; empty if there was none."""
    if len(result.loads) < 2:
        return ""
    series = []
    takes: tuple[tuple[str, Callable[[Measurement], float]], ...]
    takes = (("p50", lambda one: one.p50_ms), ("p99", lambda one: one.p99_ms))
    for name, take in takes:
        for side in _SIDES:
            answered = [[one for one in result.of(side, load) if one.answered] for load in result.loads]
            points = [
                (statistics.median(one.throughput_rps for one in level), statistics.median(map(take, level)))
                for level in answered
                if level
            ]
            if points:
                series.append(Series(side, f"{side}, {name}", points))
    loads = ", ".join(load.label for load in result.loads)
    return curve_chart(series, f"p50 and p99 latency against answered requests a second, at {loads}.")


def _level(result: BenchmarkResult, load: LoadLevel, side: Role) -> _Level:
    found = [one for one in result.of(side, load) if one.answered]
    ttft = [one.ttft_ms for one in found if one.ttft_ms is not None]
    itl = [one.itl_ms for one in found if one.itl_ms is not None]
    return _Level(
        load=load.label,
        side=side,
        requests=sum(one.requests for one in result.of(side, load)),
        errors=sum(one.errors for one in result.of(side, load)),
        throughput_rps=_median(found, lambda one: one.throughput_rps),
        p50_ms=_median(found, lambda one: one.p50_ms),
        p90_ms=_median(found, lambda one: one.p90_ms),
        p95_ms=_median(found, lambda one: one.p95_ms),
        p99_ms=_median(found, lambda one: one.p99_ms),
        ttft_p50_ms=_median(ttft, lambda one: one.p50_ms),
        ttft_p99_ms=_median(ttft, lambda one: one.p99_ms),
        itl_p50_ms=_median(itl, lambda one: one.p50_ms),
        itl_p99_ms=_median(itl, lambda one: one.p99_ms),
        output_tokens_per_s=_median(found, lambda one: one.output_tokens_per_s),
    )


def _median(found: Sequence[T], take: Callable[[T], float | None]) -> float | None:
    known = [value for one in found if (value := take(one)) is not None]
    return statistics.median(known) if known else None
