"""The benchmark's verdict: candidate and stable, measured in turns on the same server.

Two kinds of limits. Those of `benchmark.slo` are absolute, and the medians over the rounds are compared with them.
`max_regression_percent` and `regression_floor_ms` are relative to the stable version in the same run: an interval over
the paired rounds decides. A verdict is one of three:

- `pass`: every limit is met;
- `fail`: a relative limit is clearly missed, or an absolute one that the stable version meets, or has no figure for;
- `inconclusive`: absolute limits alone are missed, the stable version misses each of them in the same run as well, and
  the candidate is not clearly worse; or the pairs do not decide about a relative one. `more_rounds` says how many pairs
  are to be measured then; 0 where the release file's limit is reached.

Errors have no relative limit of their own. Where both have some, the candidate is worse when it has more of them than
chance explains (a one-sided test of two proportions, 1 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slipway_core.errors import BenchmarkInconclusiveError, BenchmarkRefusedError
from slipway_core.gates.benchmark.comparison import FigureComparison, against_slo, against_stable
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.spec.release_file import Benchmark
from slipway_core.written_numbers import number

Status = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class BenchmarkVerdict:
    """Pass, fail or inconclusive, and the reasons; `comparisons` holds every figure that was looked at.

    :ivar not_compared: why a stable version that is live was not compared with; empty otherwise.
    :ivar warnings: what a pass could not be sure of.
    :ivar load: the level of load that the limits were held at, in words.
    :ivar pairs: how many rounds of both versions were compared.
    :ivar more_rounds: how many more rounds may decide; 0 where no more are to be measured in this attempt.
    """

    status: Status
    reasons: tuple[str, ...]
    comparisons: tuple[FigureComparison, ...]
    not_compared: str = ""
    warnings: tuple[str, ...] = ()
    load: str = ""
    pairs: int = 0
    more_rounds: int = 0

    @property
    def passed(self) -> bool:
        """Return whether the version may go on."""
        return self.status == "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return asdict(self)


def judge_benchmark(
    result: BenchmarkResult, benchmark: Benchmark, *, not_compared: str = "", with_stable: bool = False
) -> BenchmarkVerdict:
    """Hold the candidate against the limits, at the level of load that was measured first.

    No candidate round, or none with an answer, is a failure; no stable round that was asked for, or none with an
    answer, leaves the SLO alone to decide. Where both have answered, and never in the same round, nothing was compared:
    that is no pass.

    :param not_compared: why a stable version that is live was not measured.
    :param with_stable: the stable version was to be measured.
    """
    load = result.loads[0]
    candidate, stable = (result.of(role, load) for role in ("candidate", "stable"))
    if stable and not any(one.answered for one in stable):
        not_compared, stable = "the stable version did not answer a single request", []
    if not any(one.answered for one in candidate):
        reason = "the candidate did not answer a single request"
        return BenchmarkVerdict("fail", (reason,), (), not_compared, load=load.label)
    pairs = result.pairs(load)
    comparisons = [*against_slo(candidate, stable, benchmark)]
    if pairs:
        comparisons += against_stable(pairs, benchmark)
    rounds = len({one.round for one in candidate})
    status, decisive, more_rounds = _decide(comparisons, rounds, benchmark)
    undecided = [one for one in comparisons if one.undecided and one not in decisive]
    reasons = tuple(map(_in_words, decisive))
    if status == "pass" and not pairs and (stable or (with_stable and not not_compared)):
        status, more_rounds = "inconclusive", benchmark.rounds_after(rounds)
        reasons = ("no round was answered by both versions, so they were not compared",)
    return BenchmarkVerdict(
        status=status,
        reasons=reasons,
        comparisons=tuple(comparisons),
        not_compared=not_compared,
        warnings=tuple(map(_in_words, undecided)),
        load=load.label,
        pairs=len(pairs),
        more_rounds=more_rounds,
    )


def _decide(
    comparisons: Sequence[FigureComparison], rounds: int, benchmark: Benchmark
) -> tuple[Status, list[FigureComparison], int]:
    """Return the status, what it rests on, and how many more rounds may decide."""
    missed = [one for one in comparisons if not one.passed and not one.undecided]
    undecided = [one for one in comparisons if one.undecided]
    if any(not one.stable_misses for one in missed):
        return "fail", missed, 0
    if missed:
        return "inconclusive", missed, 0
    more_rounds = benchmark.rounds_after(rounds)
    if undecided and more_rounds:
        return "inconclusive", undecided, more_rounds
    doubtful = [one for one in undecided if benchmark.on_inconclusive == "refuse" or not one.within_margin]
    return ("inconclusive" if doubtful else "pass"), doubtful, 0


def require_benchmark(verdict: BenchmarkVerdict, model: str, version: int, *, measured: int = 1) -> None:
    """Raise unless the verdict is a pass; the error has every figure beyond its limit.

    :raises BenchmarkRefusedError: the version is too slow.
    :raises BenchmarkInconclusiveError: it is still undecided after `measured` measurements.
    """
    if verdict.passed:
        return
    missed = [comparison for comparison in verdict.comparisons if not comparison.passed]
    expected = "; ".join(f"{comparison.figure} {comparison.limit}" for comparison in missed)
    found = "; ".join(verdict.reasons)
    if verdict.status == "inconclusive":
        times = "once" if measured == 1 else f"{measured} times"
        raise BenchmarkInconclusiveError(
            f"it is unknown whether {model} version {version} is fast enough, after it was measured {times}",
            expected=expected,
            found=found,
            remedy="See what else runs on the staging server and release the version again. If the stable version "
            "never meets the limit, change `benchmark.slo` in the release file. If the rounds do not decide, raise "
            "`benchmark.max_rounds`.",
        )
    raise BenchmarkRefusedError(
        f"{model} version {version} did not pass the benchmark",
        expected=expected or "answers to the load",
        found=found,
        remedy="Look at evidence/benchmark and make the model faster; if the limit is wrong, change `benchmark` "
        "in the release file.",
    )


def _in_words(comparison: FigureComparison) -> str:
    if comparison.candidate is None:
        return f"{comparison.figure} was not measured, but {comparison.limit} is asked for"
    text = f"{comparison.figure} is {number(comparison.candidate, 4)} {comparison.unit}"
    if comparison.change_percent is not None and comparison.stable is not None:
        change = f"{comparison.change_percent:+.1f} %{comparison.interval_words}"
        text += f", stable has {number(comparison.stable, 4)} ({change})"
    text += f"; allowed is {comparison.limit}"
    if comparison.undecided:
        text += "; the rounds do not decide"
    if comparison.stable_misses and comparison.stable is not None:
        text += f"; the stable version misses it as well: {number(comparison.stable, 4)} {comparison.unit}"
    return text
