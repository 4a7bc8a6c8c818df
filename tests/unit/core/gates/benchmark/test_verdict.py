"""The benchmark gate."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import (
    BenchmarkInconclusiveError,
    BenchmarkRefusedError,
    GateRefusedError,
    SlipwayError,
    TransientError,
)
from slipway_core.gates.benchmark.comparison import FigureComparison
from slipway_core.gates.benchmark.result import BenchmarkResult, Measurement, Role
from slipway_core.gates.benchmark.verdict import judge_benchmark, require_benchmark
from slipway_core.spec.release_file import Benchmark, ServiceLevel, TextGeneration

_GATE = Benchmark(slo=ServiceLevel(p99_ms=50.0), max_regression_percent=25.0, regression_floor_ms=1.0)


def _round(role: str = "candidate", number: int = 0, **changes: Any) -> dict[str, Any]:
    fields = {
        "role": role,
        "round": number,
        "concurrency": 2,
        "requests": 200,
        "errors": 0,
        "throughput_rps": 500.0,
        "avg_ms": 2.0,
        "p50_ms": 2.0,
        "p90_ms": 5.0,
        "p95_ms": 8.0,
        "p99_ms": 10.0,
    }
    return fields | changes


def _result(*rounds: dict[str, Any]) -> BenchmarkResult:
    """Five rounds like each of these: what the rounds agree on needs no more of them."""
    repeated = [one | {"round": 5 * one["round"] + more} for one in rounds for more in range(5)]
    return BenchmarkResult.from_json({"measurements": repeated})


def test_the_pods_json_is_read() -> None:
    """The result is read from text or from a dict; fields that are newer than us are left aside."""
    value = {
        "outcome": "pass",
        "measurements": [_round(), _round("baseline")],
        "tools": {"perf_analyzer": "2.51"},
    }
    assert BenchmarkResult.from_json(json.dumps(value)) == BenchmarkResult.from_json(value)
    result = BenchmarkResult.from_json(value)
    assert [len(result.of("candidate")), len(result.of("stable"))] == [1, 1]


@pytest.mark.parametrize(
    "value",
    [{}, {"measurements": []}, {"measurements": [_round(p99_ms=-1)]}, {"measurements": [_round("other")]},
     "{", b"\xff", {"measurements": [_round(p99_ms=float("nan"))]}],
)  # fmt: skip
def test_a_broken_result_is_an_error_of_the_pod(value: Any) -> None:
    """Nothing measured, nonsense numbers and broken JSON are told in plain words, never taken for a pass."""
    with pytest.raises(SlipwayError, match=r"result\.json cannot be read"):
        BenchmarkResult.from_json(value)


def test_what_was_not_compared_is_said() -> None:
    """The SLO decides alone over a stable version that was left out, or that answered nothing; the verdict says why."""
    left_out = judge_benchmark(_result(_round()), _GATE, not_compared="version 2 is an engine of old")
    assert (left_out.passed, left_out.to_dict()["not_compared"]) == (True, "version 2 is an engine of old")
    silent = judge_benchmark(_result(_round(), _round("baseline", requests=9, errors=9)), _GATE)
    assert (silent.passed, silent.not_compared) == (
        True,
        "the stable version did not answer a single request",
    )
    assert judge_benchmark(_result(_round(), _round("baseline")), _GATE).not_compared == ""


def test_as_good_as_stable_passes() -> None:
    """A candidate within the SLO and as fast as stable passes, with every figure kept."""
    verdict = judge_benchmark(_result(_round(), _round("baseline")), _GATE)
    assert verdict.passed
    assert verdict.reasons == ()
    assert {comparison.figure for comparison in verdict.comparisons} == {
        "p99 latency",
        "errors",
        "p50 latency against stable",
        "p99 latency against stable",
        "throughput against stable",
    }
    require_benchmark(verdict, "digits", 2)
    json.dumps(verdict.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"p99_ms": 51.0}, "p99 latency is 51 ms"),
        ({"errors": 1}, "errors is 0.5 %"),
        ({"p99_ms": 13.0}, "stable has 10 (+30.0 %, +30.0 to +30.0 %)"),
        (
            {"throughput_rps": 300.0},
            "throughput against stable is 300 requests/s, stable has 500 (-40.0 %, -40.0",
        ),
        ({"errors": 200}, "did not answer a single request"),
        ({"requests": 0}, "did not answer a single request"),
    ],
)
def test_each_limit_is_held(changes: dict[str, Any], reason: str) -> None:
    """Beyond any one limit the version is refused, and the reason has the numbers."""
    verdict = judge_benchmark(_result(_round(**changes), _round("baseline")), _GATE)
    assert not verdict.passed
    assert any(reason in text for text in verdict.reasons)
    with pytest.raises(BenchmarkRefusedError, match="digits version 2 did not pass the benchmark"):
        require_benchmark(verdict, "digits", 2)


def test_small_differences_are_noise() -> None:
    """A large percentage of a tiny latency, below the floor, is no regression."""
    verdict = judge_benchmark(_result(_round(p99_ms=1.4), _round("baseline", p99_ms=0.5)), _GATE)
    assert verdict.passed


def test_one_disturbed_round_does_not_decide() -> None:
    """Medians are held against the limits and trimmed means compared, so that a single bad round is outvoted."""
    rounds = [_round(number=number, p99_ms=p99) for number, p99 in enumerate((10.0, 500.0, 10.1, 10.0, 9.9))]
    stable = [_round("baseline", number) for number in range(5)]
    assert judge_benchmark(BenchmarkResult.from_json({"measurements": [*rounds, *stable]}), _GATE).passed


def test_the_first_version_is_held_to_the_slo_alone() -> None:
    """Without a stable version only the absolute limits count."""
    assert judge_benchmark(_result(_round(throughput_rps=1.0)), _GATE).passed
    assert not judge_benchmark(_result(_round(p99_ms=60.0)), _GATE).passed


def test_without_a_candidate_there_is_no_pass() -> None:
    """Measurements of stable alone prove nothing about the candidate."""
    assert not judge_benchmark(_result(_round("baseline")), _GATE).passed


def test_a_least_throughput_can_be_asked_for() -> None:
    """With `throughput_min_rps` a slower candidate is refused."""
    gate = _GATE.model_copy(update={"slo": ServiceLevel(throughput_min_rps=600.0)})
    assert not judge_benchmark(_result(_round()), gate).passed


def test_text_latencies_are_judged_when_asked_for() -> None:
    """Time to first token is held against its limit, and a figure that was not measured has not been met."""
    gate = Benchmark(generator="genai_perf", genai=TextGeneration(), slo=ServiceLevel(ttft_p99_ms=20.0))
    quantiles = {"avg_ms": 5.0, "p50_ms": 5.0, "p90_ms": 9.0, "p95_ms": 10.0, "p99_ms": 12.0}
    slow = {**quantiles, "p99_ms": 25.0}
    assert judge_benchmark(_result(_round(ttft_ms=quantiles)), gate).passed
    assert not judge_benchmark(_result(_round(ttft_ms=slow)), gate).passed
    missing = judge_benchmark(_result(_round()), gate)
    assert "was not measured" in missing.reasons[0]
    json.dumps(missing.to_dict(), allow_nan=False)
    against_stable = judge_benchmark(
        _result(_round(ttft_ms=slow), _round("baseline", ttft_ms=quantiles)), gate
    )
    assert any("first token against stable" in reason for reason in against_stable.reasons)


_QUANTILES = {"avg_ms": 5.0, "p50_ms": 5.0, "p90_ms": 9.0, "p95_ms": 10.0, "p99_ms": 25.0}
_TEXT = Benchmark(generator="genai_perf", genai=TextGeneration(), slo=ServiceLevel(ttft_p99_ms=20.0))


@pytest.mark.parametrize(
    ("gate", "candidate", "stable", "reason"),
    [
        (_GATE, {"p99_ms": 218.0}, {"p99_ms": 200.0}, "p99 latency is 218 ms; .*misses it as well: 200 ms"),
        (_GATE, {"errors": 3}, {"errors": 1}, r"errors is 1.5 %; .*misses it as well: 0.5 %"),
        (
            _GATE.model_copy(update={"slo": ServiceLevel(throughput_min_rps=600.0)}),
            {"throughput_rps": 480.0},
            {},
            "throughput is 480 requests/s; .*misses it as well: 500 requests/s",
        ),
        (_TEXT, {"ttft_ms": _QUANTILES}, {"ttft_ms": _QUANTILES}, "first token is 25 ms; .*as well: 25 ms"),
    ],
)
def test_a_limit_that_stable_misses_as_well_cannot_tell(
    gate: Benchmark, candidate: dict[str, Any], stable: dict[str, Any], reason: str
) -> None:
    """A candidate as good as stable that misses an absolute limit with it is neither passed nor refused."""
    verdict = judge_benchmark(_result(_round(**candidate), _round("baseline", **stable)), gate)
    assert verdict.status == "inconclusive"
    with pytest.raises(BenchmarkInconclusiveError, match=reason) as caught:
        require_benchmark(verdict, "digits", 2, measured=3)
    assert "measured 3 times" in str(caught.value)
    assert not isinstance(caught.value, GateRefusedError | TransientError)
    assert verdict.to_dict()["status"] == "inconclusive"


@pytest.mark.parametrize(
    ("candidate", "stable"),
    [
        ({"p99_ms": 260.0}, {"p99_ms": 200.0}),
        ({"errors": 90}, {"errors": 1}),
        ({"errors": 1}, {}),
        ({"p99_ms": 218.0, "throughput_rps": 300.0}, {"p99_ms": 200.0}),
        ({"p99_ms": 218.0, "errors": 2}, {"p99_ms": 200.0}),
    ],
)
def test_a_candidate_worse_than_stable_is_refused_although_stable_misses_the_limit(
    candidate: dict[str, Any], stable: dict[str, Any]
) -> None:
    """What stable misses excuses only a candidate that is no worse, and only for that very limit."""
    verdict = judge_benchmark(_result(_round(**candidate), _round("baseline", **stable)), _GATE)
    assert verdict.status == "fail"
    with pytest.raises(BenchmarkRefusedError):
        require_benchmark(verdict, "digits", 2)


def test_a_figure_that_only_stable_has_excuses_nothing() -> None:
    """A candidate whose time to first token was not measured is refused, however slow stable's was."""
    verdict = judge_benchmark(_result(_round(), _round("baseline", ttft_ms=_QUANTILES)), _TEXT)
    assert verdict.status == "fail"


_LATENCY = st.floats(0.1, 100)


@given(_LATENCY, _LATENCY, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_stable_only_ever_turns_a_refusal_into_doubt(
    candidate: float, stable: float, errors: float, stable_errors: float
) -> None:
    """However bad stable was, a candidate that misses a limit never passes."""
    mine = _round(p99_ms=candidate, errors=int(199 * errors))
    theirs = _round("baseline", p99_ms=stable, errors=int(199 * stable_errors))
    alone, beside = (judge_benchmark(_result(*rounds), _GATE) for rounds in ((mine,), (mine, theirs)))
    assert alone.passed or not beside.passed
    assert alone.status != "inconclusive"


@given(_LATENCY, _LATENCY, st.floats(0, 50))
def test_a_slower_candidate_never_fares_better(candidate: float, stable: float, more: float) -> None:
    """What is refused at one latency is refused at every higher one."""

    def passed(p99_ms: float) -> bool:
        return judge_benchmark(
            _result(_round(p99_ms=p99_ms), _round("baseline", p99_ms=stable)), _GATE
        ).passed

    assert passed(candidate) or not passed(candidate + more)


@given(st.permutations([_round(number=n, p99_ms=5.0 * n + 1) for n in range(4)] + [_round("baseline")]))
def test_the_order_of_rounds_means_nothing(rounds: list[dict[str, Any]]) -> None:
    """The same rounds in another order give the same verdict."""
    roles: tuple[Role, ...] = ("candidate", "stable")
    assert [len(_result(*rounds).of(role)) for role in roles] == [20, 5]
    assert (
        judge_benchmark(_result(*rounds), _GATE).passed
        == judge_benchmark(_result(*reversed(rounds)), _GATE).passed
    )


def test_the_fields_are_those_of_the_contract() -> None:
    """A measurement can be written and read again without loss."""
    measurement = Measurement.model_validate(_round())
    assert Measurement.model_validate_json(measurement.model_dump_json()) == measurement


@pytest.mark.parametrize(
    ("comparison", "told"),
    [
        (
            FigureComparison("p99 latency", "ms", 12.3203, 19.943, -38.22, "at most 15 ms", passed=True),
            "p99 latency: candidate 12.32 ms, stable 19.94 ms (-38.2 %); limit at most 15 ms: passed",
        ),
        (
            FigureComparison("errors", "%", 1.0, None, None, "at most 0 %", passed=False),
            "errors: candidate 1 %; limit at most 0 %: missed",
        ),
        (
            FigureComparison(
                "p99 latency", "ms", None, 20.0, None, "at most 15 ms", passed=False, stable_misses=True
            ),
            "p99 latency: not measured, stable 20 ms; limit at most 15 ms: missed, by stable as well",
        ),
    ],
)
def test_a_figure_is_told_in_one_line(comparison: FigureComparison, told: str) -> None:
    """What was measured, of whom, and against which limit."""
    assert comparison.sentence == told
