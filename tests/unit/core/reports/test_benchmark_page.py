"""The benchmark's page: verdict, comparison, limits and curve, in one file that runs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.benchmark.verdict import judge_benchmark
from slipway_core.reports.benchmark.page import BenchmarkedVersion, render_benchmark_html
from slipway_core.spec.release_file import Benchmark, ServiceLevel, TextGeneration

SUBJECT = BenchmarkedVersion("digits", 7, "digits-7-<b>", "2026-11-22T20:00:00+00:00")
GATE = Benchmark(concurrency=(2, 4, 8), slo=ServiceLevel(p99_ms=50.0, p50_ms=20.0), regression_floor_ms=0.1)


def rounds(
    role: str, latency_ms: float, *, levels: tuple[int, ...] = (2, 4, 8), **more: Any
) -> list[dict[str, Any]]:
    """Five rounds at the first level and one at each other, a little different each time."""
    found = []
    for level in levels:
        for number in range(1, 6 if level == levels[0] else 2):
            noise = 1 + 0.03 * ((number * len(role)) % 5)
            names = {"p10_ms": 0.8, "avg_ms": 1.1, "p50_ms": 1.0, "p90_ms": 1.5, "p95_ms": 1.8, "p99_ms": 2.5}
            scale = latency_ms * noise * (level / 2) ** 0.7
            latencies = {name: round(factor * scale, 3) for name, factor in names.items()}
            counts = {
                "requests": 200,
                "errors": 0,
                "throughput_rps": round(1000 * level / latencies["avg_ms"], 1),
            }
            whose = {"role": role, "round": number, "concurrency": level}
            found.append({**whose, **counts, **latencies, **more})
    return found


def page(*measured: list[dict[str, Any]], benchmark: Benchmark = GATE, not_compared: str = "") -> str:
    result = BenchmarkResult.from_json(
        {"generator": "perf_analyzer", "measurements": [one for part in measured for one in part]}
    )
    verdict = judge_benchmark(result, benchmark, not_compared=not_compared)
    return render_benchmark_html(SUBJECT, benchmark, result, verdict)


@pytest.mark.parametrize(
    ("candidate_ms", "words"), [(3.0, "✓ passed"), (6.0, "✗ refused"), (3.7, "? inconclusive")]
)
def test_the_page_says_the_verdict_first(candidate_ms: float, words: str) -> None:
    """The headline has the verdict, and below it stands each figure with its interval and limit."""
    text = page(rounds("candidate", candidate_ms), rounds("baseline", 3.0))
    assert words in text
    for told in (
        "p50 latency",
        "throughput",
        "at most 25 % or 0.1 ms above stable",
        "concurrency 8",
        "% below stable",
    ):
        assert told in text
    assert text.count("<svg") == 3
    assert "digits-7-&lt;b&gt;" in text
    assert "<script" not in text


def test_a_version_that_was_not_compared_has_no_comparison() -> None:
    """Without a stable version, and without a sweep, the page has limits and rounds, and says why."""
    text = page(rounds("candidate", 3.0, levels=(2,)), not_compared="an engine of old")
    assert "an engine of old" in text
    assert "Against the stable version, in the same run" not in text
    assert "Latency against throughput" not in text
    assert text.count("<svg") == 1


def test_a_text_models_page_has_its_token_latencies() -> None:
    """Time to first token, between tokens and tokens a second have a table of their own."""
    quantiles = {"avg_ms": 5.0, "p10_ms": 4.0, "p50_ms": 5.0, "p90_ms": 9.0, "p95_ms": 10.0, "p99_ms": 25.0}
    more = {"ttft_ms": quantiles, "itl_ms": quantiles, "output_tokens_per_s": 123.4}
    gate = Benchmark(generator="genai_perf", genai=TextGeneration(), slo=ServiceLevel(ttft_p90_ms=8.0))
    text = page(rounds("candidate", 3.0, **more), rounds("baseline", 3.0, **more), benchmark=gate)
    assert "123.4" in text
    assert "p90 time to first token" in text
    assert "missed, by stable as well" in text
    assert "Text</h2>" not in page(rounds("candidate", 3.0))


def test_the_same_measurements_make_the_same_page() -> None:
    """The page's bytes follow from what was measured alone."""
    measured = rounds("candidate", 3.0), rounds("baseline", 3.0)
    assert page(*measured) == page(*measured)
