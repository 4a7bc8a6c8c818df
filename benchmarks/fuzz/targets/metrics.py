"""The answers of Prometheus and the pages of Envoy."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from benchmarks.fuzz import interesting, mutate
from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import Target
from slipway.metrics.prometheus_series import RevisionData, parse_answer, parse_series, shared_series
from slipway.metrics.sources.scrape import counters_by_revision
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Reading, SeriesReading, window_between
from slipway_core.selectors import check_selector

_NOW = 10_000.0
_PAGE = """\
# TYPE envoy_cluster_grpc_0 counter
envoy_cluster_grpc_0{envoy_cluster_name="a|grpc"} 20
# TYPE envoy_cluster_grpc_13 counter
envoy_cluster_grpc_13{envoy_cluster_name="a|grpc"} 3
# TYPE envoy_cluster_upstream_rq counter
envoy_cluster_upstream_rq{envoy_response_code="200",envoy_cluster_name="a|http"} 40
envoy_cluster_upstream_rq{envoy_response_code="503",envoy_cluster_name="a|http"} 4
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="a|http"} 45
envoy_cluster_upstream_rq_total{envoy_cluster_name="a|grpc"} 25
# TYPE envoy_cluster_upstream_rq_pending_failure_eject counter
envoy_cluster_upstream_rq_pending_failure_eject{envoy_cluster_name="a|http"} 3
# TYPE envoy_cluster_upstream_rq_cancelled counter
envoy_cluster_upstream_rq_cancelled{envoy_cluster_name="a|http"} 1
# TYPE envoy_cluster_upstream_rq_pending_overflow counter
envoy_cluster_upstream_rq_pending_overflow{envoy_cluster_name="a|http"} 0
# TYPE envoy_cluster_upstream_rq_maintenance_mode counter
envoy_cluster_upstream_rq_maintenance_mode{envoy_cluster_name="a|http"} 0
# TYPE envoy_cluster_upstream_cx_none_healthy counter
envoy_cluster_upstream_cx_none_healthy{envoy_cluster_name="a|http"} 0
# TYPE envoy_cluster_upstream_rq_retry counter
envoy_cluster_upstream_rq_retry{envoy_cluster_name="a|http"} 2
# TYPE envoy_cluster_upstream_rq_active gauge
envoy_cluster_upstream_rq_active{envoy_cluster_name="a|http"} 1
# TYPE envoy_cluster_upstream_rq_pending_active gauge
envoy_cluster_upstream_rq_pending_active{envoy_cluster_name="a|http"} 0
# TYPE envoy_cluster_upstream_rq_time histogram
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|http",le="1"} 10
envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name="a|http",le="+Inf"} 45
"""
_ENDPOINT = "127.0.0.1:9901"
_NUMBERS = ("NaN", "-1", "1e400", "+Inf", "1e18", "0.5", "9" * 400, "9" * 5000, "", "x", "1_0", "٣")


def _series(name: str, value: str, **labels: str) -> dict[str, Any]:
    return {
        "metric": {"__name__": name, "rev": "a", **labels},
        "values": [[_NOW - 9, "1"], [_NOW - 1, value]],
    }


_MATRICES = (
    [_series("requests_total", "45")],
    [_series("seconds_bucket", "10", le="0.1"), _series("seconds_bucket", "45", le="+Inf")],
    [_series("up", "1")],
    [],
)
_ANSWERS: tuple[dict[str, Any], ...] = (
    *({"status": "success", "data": {"resultType": "matrix", "result": result}} for result in _MATRICES),
    {"status": "error", "errorType": "bad_data", "error": "parse error"},
    {"status": "success", "data": {"resultType": "scalar", "result": [_NOW, "1"]}, "warnings": ["partial"]},
)


def _page(rng: Random, seeds: Sequence[str]) -> str:
    """A page with damaged bytes, or whose labels and numbers are others."""
    text = rng.choice(seeds)
    if rng.random() < 0.5:
        return mutate.some_bytes(rng, [text.encode()]).decode("utf-8", "replace")
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        name, _, number = lines[at].rpartition(" ")
        lines[at] = rng.choice(
            (
                f"{name} {rng.choice(_NUMBERS)}",
                f"{name} {number} {rng.choice(_NUMBERS)}",
                lines[at]
                .replace('"200"', f'"{rng.choice(interesting.TEXTS[:20])}"')
                .replace('le="1"', 'le="x"'),
                lines[at].replace("envoy_response_code=", "x=").replace("le=", "y="),
                lines[at].replace("grpc_0", f"grpc_{rng.choice(('²', '٣', 'x', '9' * 5000))}"),
                rng.choice(lines),
            )
        )
    return "\n".join(lines) + "\n"


def _read_page(text: str) -> None:
    counters = counters_by_revision(text, ["a"], "the router")["a"]
    reading = Reading(_NOW, {_ENDPOINT: SeriesReading(_NOW, counters)})
    assert Reading.from_dict(reading.to_dict()) == reading
    before = {name: Reading(_NOW - 5) for name in ("a", "b")}
    window_between(before, {"a": reading, "b": reading}, stable="a", candidate="b")


def _read_answer(content: bytes) -> None:
    """Requests alone, or buckets alone: with both, each input would have one series for two queries."""
    series = parse_series(parse_answer(content, "the Prometheus"), "the Prometheus")
    for requests, latency in ((series, None), (series[:1], series[1:]), ([], series)):
        try:
            data = RevisionData("a", "the Prometheus", _NOW, 60.0, requests, [], latency)
            reading = data.reading(None if data.is_fresh else series)
            shared_series({"a": reading, "b": reading})
            assert Reading.from_dict(reading.to_dict()) == reading
        except SlipwayError:
            continue


def _selector(rng: Random, seeds: Sequence[bytes]) -> str:
    return mutate.some_bytes(rng, seeds).decode("utf-8", "replace")


TARGETS = (
    Target("envoy_page", lambda: [_PAGE], _page, _read_page),
    Target(
        "prometheus_answer",
        lambda: [json_bytes(tree) for tree in _ANSWERS[:3]],
        lambda rng, _: mutated_json(rng, _ANSWERS),
        _read_answer,
    ),
    Target(
        "metrics_selector",
        lambda: [b'requests_total{rev="{revision}",code=~"5.."}'],
        _selector,
        lambda value: check_selector(value if isinstance(value, str) else value.decode()),
        (ValueError,),
    ),
)
