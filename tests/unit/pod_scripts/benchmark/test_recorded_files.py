"""Files that perf_analyzer 2.51, genai-perf 0.0.16 and aiperf 0.13 really wrote, read into one form.

All three measured a small decoupled text model in a tritonserver. The reports are less what concerns the tools' own
settings and the machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_pod.benchmark import aiperf_files, genai_perf_files
from slipway_pod.benchmark.figures import Quantiles, RoundFigures
from slipway_pod.benchmark.perf_analyzer_files import figures_of_spans, read_spans

RECORDED = Path(__file__).parent / "recorded"


def report(name: str) -> dict[str, Any]:
    return dict(json.loads((RECORDED / name).read_text()))


def all_figures() -> dict[str, RoundFigures]:
    return {
        "perf_analyzer": figures_of_spans(read_spans(RECORDED / "perf_analyzer_streamed.json")),
        "genai_perf": genai_perf_files.figures_of_report(report("genai_perf.json"), 10, streaming=True),
        "aiperf": aiperf_files.figures_of_report(report("aiperf.json")),
        "aiperf, one error": aiperf_files.figures_of_report(report("aiperf_one_error.json")),
    }


@pytest.mark.parametrize("tool", list(all_figures()))
def test_every_tools_file_becomes_a_measurement(tool: str) -> None:
    """Whatever tool measured, the gate reads the same fields, in milliseconds and requests a second."""
    figures = all_figures()[tool]
    whose = {"role": "candidate", "round": 1, "concurrency": 2, "request_rate_rps": None}
    told = json.dumps({"generator": tool, "measurements": [{**whose, **figures.to_json()}]}, allow_nan=False)
    (measured,) = BenchmarkResult.from_json(told).measurements
    assert measured.answered
    assert measured.throughput_rps > 1
    assert measured.p10_ms is not None
    assert (
        0 < measured.p10_ms <= measured.p50_ms <= measured.p90_ms <= measured.p95_ms <= measured.p99_ms < 1000
    )


def test_text_has_its_own_latencies() -> None:
    """genai-perf and aiperf tell the time to first token, between tokens, and tokens a second."""
    for tool in ("genai_perf", "aiperf"):
        figures = all_figures()[tool]
        assert (figures.requests, figures.errors) == (10, 0)
        assert figures.ttft_ms is not None
        assert figures.itl_ms is not None
        # The model sleeps 2 ms before each word.
        assert 1 < figures.itl_ms.p50_ms < figures.ttft_ms.p50_ms < figures.latency.p50_ms
        assert figures.output_tokens_per_s is not None
        assert figures.output_tokens_per_s > 100


def test_requests_without_an_answer_are_errors() -> None:
    """aiperf counts them itself; genai-perf leaves them out, and they are what is missing of those asked for."""
    assert (all_figures()["aiperf, one error"].requests, all_figures()["aiperf, one error"].errors) == (10, 1)
    figures = genai_perf_files.figures_of_report(report("genai_perf.json"), 12, streaming=True)
    assert (figures.requests, figures.errors) == (12, 2)
    nothing = genai_perf_files.figures_of_report({}, 12, streaming=True)
    assert (nothing.requests, nothing.errors, nothing.latency.p99_ms, nothing.ttft_ms) == (12, 12, 0.0, None)


def test_a_request_lasts_until_its_last_answer() -> None:
    """Of a streamed request perf_analyzer's export has every answer's time; the arrivals are kept as well."""
    spans = read_spans(RECORDED / "perf_analyzer_streamed.json")
    arrivals = genai_perf_files.read_arrivals(RECORDED / "perf_analyzer_streamed.json")
    assert len(spans) == len(arrivals) == 10
    assert [end for _, end in spans] == [times[-1] for _, times in arrivals]
    # genai-perf does not count the last answer, which is empty and says that it is the last one.
    own = all_figures()["genai_perf"].latency
    assert figures_of_spans(spans).latency.p50_ms == pytest.approx(own.p50_ms, rel=0.05)


def test_a_metric_that_is_no_number_is_not_made_up() -> None:
    """A tool that tells `null` or leaves a percentile out has not measured it."""
    whole = report("aiperf.json")["request_latency"]
    assert Quantiles.from_report(whole) is not None
    assert Quantiles.from_report({**whole, "p99": None}) is None
    assert Quantiles.from_report({key: value for key, value in whole.items() if key != "p10"}) is None
    assert Quantiles.from_report(None) is None
