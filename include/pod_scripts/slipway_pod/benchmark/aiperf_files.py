"""What aiperf leaves behind: `profile_export_aiperf.json`.

aiperf is genai-perf's successor. It speaks no KServe gRPC; Triton is measured by its endpoint type `template`, over
HTTP's `generate` and `generate_stream`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_pod.benchmark.figures import Quantiles, RoundFigures
from slipway_pod.benchmark.genai_perf_files import single_value

REPORT = "profile_export_aiperf.json"


def figures_of_report(report: Mapping[str, Any]) -> RoundFigures:
    """Return aiperf's figures. Unlike genai-perf it counts requests that were answered with an error."""
    answered = round(single_value(report, "request_count") or 0)
    errors = round(single_value(report, "error_request_count") or 0)
    latency = Quantiles.from_report(report.get("request_latency")) if answered else None
    return RoundFigures(
        requests=answered + errors,
        errors=errors,
        throughput_rps=single_value(report, "request_throughput") or 0.0,
        latency=latency or Quantiles.of([]),
        ttft_ms=Quantiles.from_report(report.get("time_to_first_token")),
        itl_ms=Quantiles.from_report(report.get("inter_token_latency")),
        output_tokens_per_s=single_value(report, "output_token_throughput"),
    )
