"""The benchmark gate: candidate and stable, measured in turns on the same server, and the verdict.

Two kinds of limits. Those of `benchmark.slo` are absolute; `max_regression_percent` is relative to the stable version
in the same run, and decides by itself. A verdict is one of three:

- `pass`: every limit is met;
- `fail`: a relative limit is missed, or an absolute one that the stable version meets, or has no figure for;
- `inconclusive`: absolute limits alone are missed, the stable version misses each of them in the same run as well, and
  the candidate is no worse. Then the run says more of the server than of the candidate: it is to be measured again.

Errors have no relative limit of their own. Where both have some, the candidate is worse when it has more of them than
chance explains (a one-sided test of two proportions, 1 %).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from include.model_release.errors import BenchmarkInconclusiveError, BenchmarkRefusedError
from include.model_release.gates.pod_report import parse_report
from include.model_release.spec.release_file import Benchmark

Role = Literal["candidate", "stable"]
Status = Literal["pass", "fail", "inconclusive"]
_NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# The largest value of a 64-bit counter.
_Count = Annotated[int, Field(ge=0, lt=2**63)]
# The 99 % quantile of the standard normal distribution.
_BEYOND_CHANCE = 2.326


class Quantiles(BaseModel):
    """A latency's average and quantiles, in milliseconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    avg_ms: _NonNegative
    p50_ms: _NonNegative
    p90_ms: _NonNegative
    p95_ms: _NonNegative
    p99_ms: _NonNegative


class Measurement(BaseModel):
    """One round of load on one version.

    Throughput counts answers without error; latencies are those of such answers.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: Literal["candidate", "baseline", "stable"]
    round: Annotated[int, Field(ge=0)]
    concurrency: Annotated[int, Field(ge=1)]
    requests: _Count
    errors: _Count
    throughput_rps: _NonNegative
    avg_ms: _NonNegative
    p50_ms: _NonNegative
    p90_ms: _NonNegative
    p95_ms: _NonNegative
    p99_ms: _NonNegative
    ttft_ms: Quantiles | None = None
    """Time to first token, for streamed text."""
    itl_ms: Quantiles | None = None
    """Time between tokens, for streamed text."""

    @model_validator(mode="after")
    def _at_most_as_many_errors(self) -> Self:
        if self.errors > self.requests:
            raise ValueError(f"{self.errors} errors in {self.requests} requests")
        return self


class BenchmarkResult(BaseModel):
    """All rounds of one benchmark."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    measurements: Annotated[tuple[Measurement, ...], Field(min_length=1)]
    tools: dict[str, str] = {}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str | bytes) -> BenchmarkResult:
        """Return the report in the benchmark pod's result.json.

        :raises SlipwayError: it is not such a report. The fault is the pod's.
        """
        expected = "`measurements`, each with role, round, requests, errors, throughput and latencies"
        return parse_report(cls, value, pod="benchmark", expected=expected)

    def of(self, role: Role) -> list[Measurement]:
        """Return the rounds of one side; the pod calls the stable version `baseline`."""
        names = ("candidate",) if role == "candidate" else ("baseline", "stable")
        return [measurement for measurement in self.measurements if measurement.role in names]


@dataclass(frozen=True)
class Comparison:
    """One figure against its limit; None where it was not measured or there is nothing to compare with.

    `stable_misses` says that the stable version does not meet this limit either, in the same run.
    """

    figure: str
    unit: str
    candidate: float | None
    stable: float | None
    change_percent: float | None
    limit: str
    passed: bool
    stable_misses: bool = False

    @property
    def told(self) -> str:
        """The figure in words, for a log."""
        stable = "" if self.stable is None else f", stable {self.stable:.4g} {self.unit}"
        change = "" if self.change_percent is None else f" ({self.change_percent:+.1f} %)"
        candidate = (
            "not measured" if self.candidate is None else f"candidate {self.candidate:.4g} {self.unit}"
        )
        end = "passed" if self.passed else "missed, by stable as well" if self.stable_misses else "missed"
        return f"{self.figure}: {candidate}{stable}{change}; limit {self.limit}: {end}"


@dataclass(frozen=True)
class BenchmarkVerdict:
    """Pass, fail or inconclusive, and the reasons; `comparisons` holds every figure that was looked at.

    `not_compared` says why a stable version that is live was not compared with; empty otherwise.
    """

    status: Status
    reasons: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    not_compared: str = ""

    @property
    def passed(self) -> bool:
        """Return whether the version may go on."""
        return self.status == "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Side:
    """Medians over the rounds of one side: one round that was disturbed by its neighbours does not decide."""

    p99_ms: float
    throughput_rps: float
    requests: int
    errors: int
    ttft_p99_ms: float | None
    itl_p99_ms: float | None

    @property
    def error_percent(self) -> float:
        return 100.0 * self.errors / self.requests


def judge_benchmark(
    result: BenchmarkResult, benchmark: Benchmark, *, not_compared: str = ""
) -> BenchmarkVerdict:
    """Hold the candidate's medians against the SLO, and against the stable version's of the same run.

    No candidate round, or none with an answer, is a failure; no stable round, or none with an answer, leaves the
    SLO alone to decide. `not_compared` says why a stable version that is live was not measured.
    """
    candidate = _side(result.of("candidate"))
    stable = _side(result.of("stable"))
    if stable is None and result.of("stable"):
        not_compared = "the stable version did not answer a single request"
    if candidate is None:
        return BenchmarkVerdict("fail", ("the candidate did not answer a single request",), (), not_compared)
    comparisons = [*_against_slo(candidate, stable, benchmark)]
    if stable is not None:
        comparisons += _against_stable(candidate, stable, benchmark)
    missed = [comparison for comparison in comparisons if not comparison.passed]
    status: Status = "pass" if not missed else "fail"
    if missed and all(comparison.stable_misses for comparison in missed):
        status = "inconclusive"
    reasons = tuple(_in_words(comparison) for comparison in missed)
    return BenchmarkVerdict(status, reasons, tuple(comparisons), not_compared)


def require_benchmark(verdict: BenchmarkVerdict, model: str, version: int, *, measured: int = 1) -> None:
    """Raise unless the verdict is a pass; the error has every figure beyond its limit.

    BenchmarkRefusedError: the version is too slow. BenchmarkInconclusiveError: it cannot be told, after it was
    measured `measured` times.
    """
    if verdict.passed:
        return
    missed = [comparison for comparison in verdict.comparisons if not comparison.passed]
    expected = "; ".join(f"{comparison.figure} {comparison.limit}" for comparison in missed)
    found = "; ".join(verdict.reasons)
    if verdict.status == "inconclusive":
        times = "once" if measured == 1 else f"{measured} times"
        raise BenchmarkInconclusiveError(
            f"it cannot be told whether {model} version {version} is fast enough, measured {times}",
            expected=expected,
            found=found,
            remedy="See what else runs on the staging server and release the version again; where the stable version "
            "never meets the limit, change `benchmark.slo` in the release file.",
        )
    raise BenchmarkRefusedError(
        f"{model} version {version} did not pass the benchmark",
        expected=expected or "answers to the load",
        found=found,
        remedy="Look at evidence/benchmark and make the model faster; if the limit is wrong, change `benchmark` "
        "in the release file.",
    )


def _side(measurements: Sequence[Measurement]) -> _Side | None:
    answered = [measurement for measurement in measurements if measurement.requests > measurement.errors]
    if not answered:
        return None
    return _Side(
        p99_ms=statistics.median(measurement.p99_ms for measurement in answered),
        throughput_rps=statistics.median(measurement.throughput_rps for measurement in answered),
        requests=sum(measurement.requests for measurement in measurements),
        errors=sum(measurement.errors for measurement in measurements),
        ttft_p99_ms=_median_p99([measurement.ttft_ms for measurement in answered]),
        itl_p99_ms=_median_p99([measurement.itl_ms for measurement in answered]),
    )


def _median_p99(quantiles: Sequence[Quantiles | None]) -> float | None:
    known = [quantile.p99_ms for quantile in quantiles if quantile is not None]
    return statistics.median(known) if known else None


def _against_slo(candidate: _Side, stable: _Side | None, benchmark: Benchmark) -> list[Comparison]:
    slo = benchmark.slo

    def at_most(figure: str, unit: str, of: Callable[[_Side], float | None], limit: float) -> Comparison:
        return _at_most(figure, unit, of(candidate), None if stable is None else of(stable), limit)

    errors = at_most("errors", "%", lambda side: side.error_percent, slo.error_percent_max)
    if stable is not None and _more_errors(candidate, stable):
        errors = replace(errors, stable_misses=False)
    found = [at_most("p99 latency", "ms", lambda side: side.p99_ms, slo.p99_ms), errors]
    if slo.throughput_min_rps:
        theirs = None if stable is None else stable.throughput_rps
        found.append(
            Comparison(
                figure="throughput",
                unit="requests/s",
                candidate=candidate.throughput_rps,
                stable=theirs,
                change_percent=None,
                limit=f"at least {slo.throughput_min_rps:g} requests/s",
                passed=candidate.throughput_rps >= slo.throughput_min_rps,
                stable_misses=theirs is not None and theirs < slo.throughput_min_rps,
            )
        )
    if slo.ttft_p99_ms is not None:
        found.append(at_most("p99 time to first token", "ms", lambda side: side.ttft_p99_ms, slo.ttft_p99_ms))
    if slo.itl_p99_ms is not None:
        found.append(at_most("p99 time between tokens", "ms", lambda side: side.itl_p99_ms, slo.itl_p99_ms))
    return found


def _more_errors(candidate: _Side, stable: _Side) -> bool:
    """Return whether the candidate has more errors than chance explains."""
    pooled = (candidate.errors + stable.errors) / (candidate.requests + stable.requests)
    spread = math.sqrt(pooled * (1.0 - pooled) * (1.0 / candidate.requests + 1.0 / stable.requests))
    difference = (candidate.error_percent - stable.error_percent) / 100.0
    return difference > _BEYOND_CHANCE * spread


def _against_stable(candidate: _Side, stable: _Side, benchmark: Benchmark) -> list[Comparison]:
    found = [_not_slower("p99 latency against stable", candidate.p99_ms, stable.p99_ms, benchmark)]
    for figure, mine, theirs in (
        ("p99 time to first token against stable", candidate.ttft_p99_ms, stable.ttft_p99_ms),
        ("p99 time between tokens against stable", candidate.itl_p99_ms, stable.itl_p99_ms),
    ):
        if mine is not None and theirs is not None:
            found.append(_not_slower(figure, mine, theirs, benchmark))
    change = _change_percent(candidate.throughput_rps, stable.throughput_rps)
    found.append(
        Comparison(
            figure="throughput against stable",
            unit="requests/s",
            candidate=candidate.throughput_rps,
            stable=stable.throughput_rps,
            change_percent=change,
            limit=f"at most {benchmark.max_regression_percent:g} % below stable",
            passed=change is None or -change <= benchmark.max_regression_percent,
        )
    )
    return found


def _at_most(figure: str, unit: str, value: float | None, stable: float | None, limit: float) -> Comparison:
    # A limit whose figure was not measured is not met, whatever stable's figure is.
    passed = value is not None and value <= limit
    stable_misses = value is not None and stable is not None and stable > limit
    return Comparison(figure, unit, value, stable, None, f"at most {limit:g} {unit}", passed, stable_misses)


def _not_slower(figure: str, value: float, stable: float, benchmark: Benchmark) -> Comparison:
    change = _change_percent(value, stable)
    within = change is None or change <= benchmark.max_regression_percent
    limit = (
        f"at most {benchmark.max_regression_percent:g} % or {benchmark.regression_floor_ms:g} ms above stable"
    )
    return Comparison(
        figure, "ms", value, stable, change, limit, within or value - stable <= benchmark.regression_floor_ms
    )


def _change_percent(value: float, stable: float) -> float | None:
    return 100.0 * (value - stable) / stable if stable > 0 else None


def _in_words(comparison: Comparison) -> str:
    if comparison.candidate is None:
        return f"{comparison.figure} was not measured, but {comparison.limit} is asked for"
    text = f"{comparison.figure} is {comparison.candidate:.4g} {comparison.unit}"
    if comparison.change_percent is not None and comparison.stable is not None:
        text += f", stable has {comparison.stable:.4g} ({comparison.change_percent:+.1f} %)"
    text += f"; allowed is {comparison.limit}"
    if comparison.stable_misses:
        text += f"; the stable version misses it as well: {comparison.stable:.4g} {comparison.unit}"
    return text
