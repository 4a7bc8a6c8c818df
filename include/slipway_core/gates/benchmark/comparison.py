"""Each figure of a benchmark against its limit: the release file's own, and what stable has in the same run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slipway_core.gates.benchmark.interval import difference_interval, ratio_interval
from slipway_core.gates.benchmark.result import Measurement, Quantiles
from slipway_core.gates.interval import Decision, Interval
from slipway_core.spec.release_file import Benchmark
from slipway_core.written_numbers import amount, number

# The 99 % quantile of the standard normal distribution.
_BEYOND_CHANCE = 2.326
Pairs = Sequence[tuple[Measurement, Measurement]]
"""Candidate and stable of each round."""
_Take = Callable[[Measurement], float | None]
_Prefix = Literal["", "ttft_", "itl_"]
_LATENCIES: tuple[tuple[_Prefix, str], ...] = (
    ("", "latency"),
    ("ttft_", "time to first token"),
    ("itl_", "time between tokens"),
)


@dataclass(frozen=True)
class FigureComparison:
    """One figure against its limit; None if it was not measured or there is nothing to compare with.

    `stable_misses` says that the stable version does not meet this limit either, in the same run. Against stable
    `change_percent` is that of the paired rounds, and lies clearly between `change_low_percent` and
    `change_high_percent`; `decision` is `inconclusive` where these do not decide.
    """

    figure: str
    unit: str
    candidate: float | None
    stable: float | None
    change_percent: float | None
    limit: str
    passed: bool
    stable_misses: bool = False
    decision: Decision | None = None
    change_low_percent: float | None = None
    change_high_percent: float | None = None
    within_margin: bool = False
    """Against stable: the figure itself is within the margin, however sure that is."""

    @property
    def undecided(self) -> bool:
        """Return whether more rounds may tell what these could not."""
        return self.decision == "inconclusive"

    @property
    def sentence(self) -> str:
        """The figure in words, for a log."""
        stable = "" if self.stable is None else f", stable {number(self.stable, 4)} {self.unit}"
        change = (
            "" if self.change_percent is None else f" ({self.change_percent:+.1f} %{self.interval_words})"
        )
        candidate = (
            "not measured" if self.candidate is None else f"candidate {number(self.candidate, 4)} {self.unit}"
        )
        missed = "missed, by stable as well" if self.stable_misses else "missed"
        end = "passed" if self.passed else "undecided" if self.undecided else missed
        return f"{self.figure}: {candidate}{stable}{change}; limit {self.limit}: {end}"

    @property
    def interval_words(self) -> str:
        """The interval of the change in words; empty if there is none."""
        if self.change_low_percent is None or self.change_high_percent is None:
            return ""
        return f", {self.change_low_percent:+.1f} to {self.change_high_percent:+.1f} %"


# ---------------------------------------------------------------- against the release file's own limits


def against_slo(
    candidate: Sequence[Measurement], stable: Sequence[Measurement], benchmark: Benchmark
) -> Iterator[FigureComparison]:
    """Hold the candidate's medians over the rounds against `benchmark.slo`; `stable` may be empty."""
    slo = benchmark.slo
    for prefix, name in _LATENCIES:
        for percent, limit_ms in slo.latency_limits_ms(prefix).items():
            take = _latency(prefix, f"p{percent}_ms")
            found = _median(candidate, take), _median(stable, take)
            yield _at_most(f"p{percent} {name}", "ms", *found, limit_ms)
    yield _errors(candidate, stable, slo.error_percent_max)
    for name, unit, take, least in (
        ("throughput", "requests/s", _throughput, slo.throughput_min_rps),
        ("output tokens", "tokens/s", _output_tokens, slo.output_tokens_min_per_s),
    ):
        if least:
            yield _at_least(name, unit, _median(candidate, take), _median(stable, take), least)


def _errors(
    candidate: Sequence[Measurement], stable: Sequence[Measurement], limit: float
) -> FigureComparison:
    found = _at_most("errors", "%", _error_percent(candidate), _error_percent(stable), limit)
    return replace(found, stable_misses=False) if _more_errors(candidate, stable) else found


def _error_percent(measurements: Sequence[Measurement]) -> float | None:
    requests = sum(one.requests for one in measurements)
    return 100.0 * sum(one.errors for one in measurements) / requests if requests else None


def _more_errors(candidate: Sequence[Measurement], stable: Sequence[Measurement]) -> bool:
    """Return whether the candidate has more errors than chance explains."""
    mine, theirs = (sum(one.requests for one in side) for side in (candidate, stable))
    my_errors, their_errors = (sum(one.errors for one in side) for side in (candidate, stable))
    if not mine or not theirs:
        return False
    pooled = (my_errors + their_errors) / (mine + theirs)
    spread = math.sqrt(pooled * (1.0 - pooled) * (1.0 / mine + 1.0 / theirs))
    return my_errors / mine - their_errors / theirs > _BEYOND_CHANCE * spread


def _at_most(
    figure: str, unit: str, value: float | None, stable: float | None, limit: float
) -> FigureComparison:
    # A limit whose figure was not measured is not met, whatever stable's figure is.
    passed = value is not None and value <= limit
    stable_misses = value is not None and stable is not None and stable > limit
    return FigureComparison(
        figure, unit, value, stable, None, f"at most {amount(limit)} {unit}", passed, stable_misses
    )


def _at_least(
    figure: str, unit: str, value: float | None, stable: float | None, limit: float
) -> FigureComparison:
    passed = value is not None and value >= limit
    stable_misses = value is not None and stable is not None and stable < limit
    return FigureComparison(
        figure, unit, value, stable, None, f"at least {amount(limit)} {unit}", passed, stable_misses
    )


# ---------------------------------------------------------------- against stable, in the same run


def against_stable(pairs: Pairs, benchmark: Benchmark) -> Iterator[FigureComparison]:
    """Hold the paired rounds against the margins; one figure for each of `benchmark.compared` that was measured."""
    for percentile in benchmark.compared:
        if percentile == "throughput":
            yield _not_less(pairs, benchmark)
            continue
        for prefix, name in _LATENCIES:
            take, figure = _latency(prefix, f"{percentile}_ms"), f"{percentile} {name} against stable"
            found = _values(pairs, take)
            if found is not None:
                yield _not_slower(figure, *found, benchmark)
            elif (stable := _median([theirs for _, theirs in pairs], take)) is not None:
                # Stable streams, and the candidate does not.
                yield FigureComparison(
                    figure, "ms", None, stable, None, _slower_limit(benchmark), passed=False
                )


def _not_slower(
    figure: str, candidate: Sequence[float], stable: Sequence[float], benchmark: Benchmark
) -> FigureComparison:
    """Return the comparison of a latency: its change in percent or in milliseconds is within the margin."""
    most = 1 + benchmark.max_regression_percent / 100
    floor_ms = benchmark.regression_floor_ms
    ratio = ratio_interval(candidate, stable, _level(benchmark))
    above_ms = difference_interval(candidate, stable, _level(benchmark))
    decisions = (
        "inconclusive" if ratio is None else ratio[1].holds(least=None, most=most),
        "inconclusive" if above_ms is None else above_ms[1].holds(least=None, most=floor_ms),
    )
    decision: Decision = "inconclusive"
    if "met" in decisions:
        decision = "met"
    elif decisions == ("not_met", "not_met"):
        decision = "not_met"
    middle = _ratio_of_medians(candidate, stable) if ratio is None else ratio[0]
    difference = statistics.median(candidate) - statistics.median(stable)
    within = middle <= most or (difference if above_ms is None else above_ms[0]) <= floor_ms
    limit, interval = _slower_limit(benchmark), None if ratio is None else ratio[1]
    return _compared(figure, "ms", candidate, stable, middle, interval, limit, decision, within)


def _slower_limit(benchmark: Benchmark) -> str:
    most, floor_ms = benchmark.max_regression_percent, benchmark.regression_floor_ms
    return f"at most {most:g} % or {floor_ms:g} ms above stable"


def _not_less(pairs: Pairs, benchmark: Benchmark) -> FigureComparison:
    candidate, stable = ([one.throughput_rps for one in side] for side in zip(*pairs, strict=True))
    least = 1 - benchmark.max_regression_percent / 100
    ratio = ratio_interval(candidate, stable, _level(benchmark))
    decision: Decision = "inconclusive" if ratio is None else ratio[1].holds(least=least, most=None)
    middle = _ratio_of_medians(candidate, stable) if ratio is None else ratio[0]
    limit = f"at most {benchmark.max_regression_percent:g} % below stable"
    interval = None if ratio is None else ratio[1]
    return _compared(
        "throughput against stable",
        "requests/s",
        candidate,
        stable,
        middle,
        interval,
        limit,
        decision,
        middle >= least,
    )


def _compared(
    figure: str,
    unit: str,
    candidate: Sequence[float],
    stable: Sequence[float],
    ratio: float,
    interval: Interval | None,
    limit: str,
    decision: Decision,
    within: bool,
) -> FigureComparison:
    bounded = interval is not None and math.isfinite(interval.high)
    return FigureComparison(
        figure=figure,
        unit=unit,
        candidate=statistics.median(candidate),
        stable=statistics.median(stable),
        change_percent=_percent(ratio) if math.isfinite(ratio) else None,
        limit=limit,
        passed=decision == "met",
        decision=decision,
        change_low_percent=_percent(interval.low) if interval is not None and bounded else None,
        change_high_percent=_percent(interval.high) if interval is not None and bounded else None,
        within_margin=within,
    )


def _level(benchmark: Benchmark) -> float:
    """Return the confidence of one look, so that all looks together have the release file's (Bonferroni)."""
    return 1 - (1 - benchmark.confidence) / len(benchmark.looks)


def _ratio_of_medians(candidate: Sequence[float], stable: Sequence[float]) -> float:
    mine, theirs = statistics.median(candidate), statistics.median(stable)
    return mine / theirs if theirs > 0 else math.inf if mine > 0 else 1.0


def _percent(ratio: float) -> float:
    return 100.0 * (ratio - 1)


# ---------------------------------------------------------------- figures of a round


def _latency(prefix: _Prefix, name: str) -> _Take:
    def take(one: Measurement) -> float | None:
        found: Quantiles | None = {"": one, "ttft_": one.ttft_ms, "itl_": one.itl_ms}[prefix]
        value = None if found is None else getattr(found, name)
        return None if value is None else float(value)

    return take


def _throughput(one: Measurement) -> float:
    return one.throughput_rps


def _output_tokens(one: Measurement) -> float | None:
    return one.output_tokens_per_s


def _median(measurements: Sequence[Measurement], take: _Take) -> float | None:
    """Return the median over the rounds: one that was disturbed by its neighbours does not decide."""
    known = [value for one in measurements if one.answered and (value := take(one)) is not None]
    return statistics.median(known) if known else None


def _values(pairs: Pairs, take: _Take) -> tuple[list[float], list[float]] | None:
    """Return the figure of each round, of both sides; None if no round has it of both."""
    found = [(take(mine), take(theirs)) for mine, theirs in pairs]
    known = [(mine, theirs) for mine, theirs in found if mine is not None and theirs is not None]
    return ([mine for mine, _ in known], [theirs for _, theirs in known]) if known else None
