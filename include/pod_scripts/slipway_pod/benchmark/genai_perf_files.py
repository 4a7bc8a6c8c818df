"""What genai-perf leaves behind: `profile_export_genai_perf.json`, and perf_analyzer's profile export beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway_pod.benchmark.figures import Quantiles, RoundFigures

REPORT = "profile_export_genai_perf.json"
EXPORT = "profile_export.json"


def read_arrivals(export: Path) -> list[tuple[int, list[int]]]:
    """Start, and each answer's arrival, of every request in ns, from perf_analyzer's profile export."""
    requests = [item for run in json.loads(export.read_text())["experiments"] for item in run["requests"]]
    return [(item["timestamp"], item["response_timestamps"]) for item in requests]


def figures_of_report(report: Mapping[str, Any], asked: int, *, streaming: bool) -> RoundFigures:
    """Return genai-perf's figures; a request that was answered without any text counts as an error.

    :param asked: how many requests it was to send.
    :param streaming: whether the answers came token by token; without there is no time to first token.
    """
    answered = round(report.get("request_count", {}).get("avg", 0))
    latency = Quantiles.from_report(report.get("request_latency")) if answered else None
    return RoundFigures(
        requests=max(asked, answered),
        errors=max(0, asked - answered),
        throughput_rps=single_value(report, "request_throughput") or 0.0,
        latency=latency or Quantiles.of([]),
        ttft_ms=Quantiles.from_report(report.get("time_to_first_token")) if streaming else None,
        itl_ms=Quantiles.from_report(report.get("inter_token_latency")) if streaming else None,
        output_tokens_per_s=single_value(report, "output_token_throughput"),
    )


def single_value(report: Mapping[str, Any], metric: str) -> float | None:
    """Return the single value of one of the tool's metrics; None when it is not there."""
    found = report.get(metric)
    return None if found is None else round(float(found["avg"]), 3)
