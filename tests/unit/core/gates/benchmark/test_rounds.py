"""What the pairs of rounds decide: by an interval of their ratio, and by more rounds where these do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import BenchmarkInconclusiveError
from slipway_core.gates.benchmark.interval import ratio_interval
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.benchmark.verdict import judge_benchmark, require_benchmark
from slipway_core.spec.release_file import Benchmark, ServiceLevel

GATE = Benchmark(
    slo=ServiceLevel(p99_ms=1e6),
    compared=("p50",),
    rounds=4,
    max_rounds=16,
    max_regression_percent=10.0,
    regression_floor_ms=0.0,
)


def result(ratios: Sequence[float], stable_ms: float = 10.0) -> BenchmarkResult:
    """A pair for each ratio of candidate to stable."""
    rounds = [
        round_of(role, number, latency_ms)
        for number, ratio in enumerate(ratios, start=1)
        for role, latency_ms in (("candidate", ratio * stable_ms), ("baseline", stable_ms))
    ]
    return BenchmarkResult.from_json({"measurements": rounds})


def round_of(role: str, number: int, latency_ms: float, **load: Any) -> dict[str, Any]:
    latencies = dict.fromkeys(("avg_ms", "p10_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"), latency_ms)
    counts = {"requests": 100, "errors": 0, "throughput_rps": 1000 / latency_ms}
    return {"role": role, "round": number, **counts, **latencies, **(load or {"concurrency": 1})}


@pytest.mark.parametrize(
    ("ratios", "status"),
    [
        ((1.0, 1.01, 0.99, 1.0), "pass"),
        ((1.3, 1.31, 1.29, 1.3), "fail"),
        ((1.0, 1.4, 0.8, 1.2), "inconclusive"),
        ((1.0,), "inconclusive"),
    ],
)
def test_an_interval_of_the_ratio_decides(ratios: Sequence[float], status: str) -> None:
    """Below the limit as a whole is a pass, above it a failure; where the limit lies inside, it cannot be told."""
    verdict = judge_benchmark(result(ratios), GATE)
    assert verdict.status == status
    assert verdict.pairs == len(ratios)


def test_rounds_that_do_not_decide_are_doubled_up_to_the_limit() -> None:
    """More pairs are asked for while the limit of the release file is not reached, and never beyond it."""
    noisy = (1.0, 1.4, 0.8, 1.2)
    asked = [judge_benchmark(result(noisy * times), GATE).more_rounds for times in (1, 2, 3, 4)]
    assert asked == [4, 8, 4, 0]
    assert judge_benchmark(result((1.3,) * 4), GATE).more_rounds == 0


@pytest.mark.parametrize(
    ("ratio", "policy", "status"),
    [
        (1.0, "warn", "pass"),
        (1.0, "refuse", "inconclusive"),
        (1.12, "warn", "inconclusive"),
        (1.12, "refuse", "inconclusive"),
    ],
)
def test_what_the_last_round_does_not_decide_is_never_a_refusal(
    ratio: float, policy: str, status: str
) -> None:
    """By the policy a figure within the margin passes with a warning; one beyond it is inconclusive."""
    noisy = [ratio * factor for factor in (0.7, 1.4, 0.8, 1.25)] * 4
    gate = GATE.model_copy(update={"on_inconclusive": policy})
    verdict = judge_benchmark(result(noisy), gate)
    assert verdict.status == status
    if verdict.passed:
        assert "the rounds do not decide" in verdict.warnings[0]
    else:
        with pytest.raises(BenchmarkInconclusiveError, match="the rounds do not decide"):
            require_benchmark(verdict, "digits", 2)


def test_below_the_floor_every_ratio_is_noise() -> None:
    """Where the difference surely is below `regression_floor_ms`, the percentage does not count."""
    gate = GATE.model_copy(update={"regression_floor_ms": 5.0})
    assert judge_benchmark(result((1.3, 1.31, 1.29, 1.3), stable_ms=10.0), gate).passed
    assert judge_benchmark(result((1.3, 1.31, 1.29, 1.3), stable_ms=100.0), gate).status == "fail"


def test_the_limits_hold_at_the_first_level_of_load() -> None:
    """The other levels of a sweep are for the curve: however slow there, they refuse nothing."""
    levels = [
        round_of(role, number, latency_ms * level, request_rate_rps=10.0 * level)
        for level in (1, 2)
        for number in range(4)
        for role, latency_ms in (("candidate", 10.0 if level == 1 else 99.0), ("baseline", 10.0))
    ]
    verdict = judge_benchmark(BenchmarkResult.from_json({"measurements": levels}), GATE)
    assert (verdict.status, verdict.load, verdict.pairs) == ("pass", "10 requests/s", 4)


def test_what_several_pods_measured_is_one_result() -> None:
    """Rounds of a second pod go on counting, and are compared with their own pair."""
    first = BenchmarkResult.from_json(
        {"measurements": [round_of("candidate", 1, 1), round_of("stable", 1, 2)]}
    )
    second = BenchmarkResult.from_json(
        {"measurements": [round_of("stable", 2, 4), round_of("candidate", 2, 3)]}
    )
    both = BenchmarkResult.together([first, second])
    assert [(mine.p50_ms, theirs.p50_ms) for mine, theirs in both.pairs(both.loads[0])] == [(1, 2), (3, 4)]


def test_the_interval_holds_what_it_promises() -> None:
    """Of ratios with heavy tails, drawn a thousand times, 95 % of the intervals hold the true one, or more."""
    numbers = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        logs = math.log(1.2) + 0.3 * numbers.standard_t(3, size=12)
        found = ratio_interval(np.exp(logs).tolist(), [1.0] * 12, 0.95)
        assert found is not None
        held += found[1].low <= 1.2 <= found[1].high
    assert held >= 940


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=30), st.floats(0.1, 10))
def test_the_unit_of_a_latency_means_nothing(ratios: list[float], unit: float) -> None:
    """The interval of a ratio is the same, whatever unit both sides are measured in, and holds the ratio."""
    one, other = (
        ratio_interval([ratio * scale for ratio in ratios], [scale] * len(ratios), 0.95)
        for scale in (1.0, unit)
    )
    assert one is not None
    assert other is not None
    assert one[0] == pytest.approx(other[0])
    assert one[1].high == pytest.approx(other[1].high, rel=1e-6)
    assert one[1].low <= one[0] * (1 + 1e-9)
    assert one[0] <= one[1].high * (1 + 1e-9)


def test_without_two_pairs_or_with_a_zero_there_is_no_ratio() -> None:
    """Nothing is made up of one pair, or of a latency of 0."""
    assert ratio_interval([1.0], [1.0], 0.95) is None
    assert ratio_interval([1.0, 0.0], [1.0, 1.0], 0.95) is None


def test_rounds_that_only_one_of_both_has_answered_compare_nothing() -> None:
    """Both have answered, and never in the same round: no pass, whatever the limits of the release file say."""
    silent = {"requests": 0, "throughput_rps": 0.0}
    rounds = [
        {**round_of("candidate", 1, 10.0), **silent},
        round_of("baseline", 1, 10.0),
        round_of("candidate", 2, 30.0),
        {**round_of("baseline", 2, 10.0), **silent},
    ]
    verdict = judge_benchmark(BenchmarkResult.from_json({"measurements": rounds}), GATE)
    assert verdict.status == "inconclusive"
    assert verdict.more_rounds > 0
    assert "not compared" in verdict.reasons[0]
    with pytest.raises(BenchmarkInconclusiveError, match="not compared"):
        require_benchmark(verdict, "digits", 2)


def test_stable_version_that_was_to_be_measured_and_was_not() -> None:
    """A result without its rounds is no pass; where nothing is live there is nothing to compare with."""
    alone = BenchmarkResult.from_json({"measurements": [round_of("candidate", 1, 10.0)]})
    assert judge_benchmark(alone, GATE, with_stable=True).status == "inconclusive"
    assert judge_benchmark(alone, GATE).status == "pass"


def test_candidate_that_does_not_stream_as_stable_does() -> None:
    """A time to the first token that stable has and the candidate has not fails: it is not left out."""
    tokens = dict.fromkeys(("avg_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"), 5.0)
    rounds = [
        {**round_of(role, number, 10.0), **({"ttft_ms": tokens} if role == "baseline" else {})}
        for number in range(1, 5)
        for role in ("candidate", "baseline")
    ]
    verdict = judge_benchmark(BenchmarkResult.from_json({"measurements": rounds}), GATE)
    assert verdict.status == "fail"
    assert "p50 time to first token against stable was not measured" in verdict.reasons[0]
