"""What is asked of Prometheus about a revision: a query set for each kind of cluster.

A query set names raw counters: *requests*, the *errors* among them, the cumulative buckets of a *latency*
histogram, and series by which it is *watched*. All are plain selectors and are sent with a range, so that the
answer holds the samples as they were scraped, with their own times. That tells new data from old, and the
differences are taken by `samples.reading_delta`, which says why.

What counts as an error is the same everywhere: an HTTP status of 400 and above, and a gRPC status other than
OK and CANCELLED. Where a source sees only HTTP, a failed gRPC call is a 200 to it; its description says so.

`watched` matters where a counter only exists from the first request on (Knative, Istio). A fresh sample above
0 of such a series says that the source sees the revision, and then a counter that is not there is a count of
0. Without it, a counter that is not there is a failure of the source.

`python -m slipway_core.metrics` prints what is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from slipway_core.metrics.visibility import ENVOY_SEES, UNKNOWN, Visibility
from slipway_core.selectors import fill
from slipway_core.spec.release_file import ReleaseSpec

LatencyUnit = Literal["ms", "s"]
Selectors = tuple[str, ...]


@dataclass(frozen=True)
class QuerySet:
    """Selectors by what they count; the series of one field are disjoint and are added up.

    `latency_unit` is the unit of the label `le`. A set without latency leaves that question unasked. `status_label` is
    a label, its value for a protocol, and the label that then has the status: without it the errors are not seen.

    `begun` counts attempts as they begin, `retried` those of them that are tried again, and `active` is the gauge of
    those that are not over; `ageless` is a label and the pattern of its values where what is active may be a stream.

    `sees` says what the set can tell.
    """

    description: str
    requests: Selectors
    errors: Selectors
    latency: Selectors = ()
    watched: Selectors = ()
    begun: Selectors = ()
    retried: Selectors = ()
    active: Selectors = ()
    latency_unit: LatencyUnit = "ms"
    status_label: tuple[str, str, str] | None = None
    ageless: tuple[str, str] | None = None
    sees: Visibility = UNKNOWN

    def filled(self, values: Mapping[str, str]) -> QuerySet:
        """Return the set about one revision. Raises ValueError where `check_selector` does."""
        filled: dict[str, Any] = {
            kind: tuple(fill(selector, values) for selector in getattr(self, kind)) for kind in KINDS
        }
        return replace(self, **filled)

    def queries(self, lookback_s: int) -> Iterator[tuple[str, str]]:
        """Yield (kind, query) as they are sent, `requests` first."""
        for kind in KINDS:
            for selector in getattr(self, kind):
                yield kind, f"{selector}[{lookback_s}s]"


KINDS = tuple(one.name for one in fields(QuerySet) if one.type == "Selectors")

_HTTP_FAILED = '=~"[45].."'
# Istio writes 0 where there was no answer; the flags say that client or server went away in the middle of one.
_ISTIO_FAILED, _ISTIO_NO_FAILURE = '=~"[45]..|0"', '!~"[45]..|0|"'
_ISTIO_GONE = 'response_flags=~"(.+,)?(DC|DR|DT|UC|UR|UPE|UT|SI)(,.+)?"'
_KNATIVE_POD = 'namespace="{namespace}",pod=~"{revision}-deployment-.+"'
_ISTIO = 'reporter="source",destination_service_namespace="{namespace}"'
_ISTIO_REVISION = f'{_ISTIO},destination_service_name="{{revision}}"'
# What began, whether or not it got a connection: attempts on one, what never got one, and what waits for one.
_ENVOY_BEGUN = (
    '__name__=~"envoy_cluster_upstream_rq_total|envoy_cluster_upstream_rq_pending_failure_eject|'
    "envoy_cluster_upstream_rq_cancelled|envoy_cluster_upstream_rq_pending_overflow|"
    "envoy_cluster_upstream_rq_maintenance_mode|envoy_cluster_upstream_cx_none_healthy|"
    'envoy_cluster_upstream_rq_pending_active"'
)
_ENVOY_ACTIVE = '__name__=~"envoy_cluster_upstream_rq_active|envoy_cluster_upstream_rq_pending_active"'
_GATEWAY_CLUSTER = 'envoy_cluster_name=~"service/{namespace}/{revision}/.+"'

# The queue-proxy counts statuses of answers; gRPC's own lies behind an HTTP 200.
_KNATIVE_SEES = Visibility(
    http_errors=True, grpc_errors=False, given_up=False, hanging=False, stream_errors=False, latency=True
)

QUERY_SETS: Mapping[str, QuerySet] = {
    "knative": QuerySet(
        "Knative up to 1.18: the queue-proxy of each pod, scraped at its port http-usermetric. It counts HTTP "
        "statuses only. `watched` takes the labels `namespace` and `pod` as the Prometheus operator adds them.",
        requests=('revision_request_count{namespace_name="{namespace}",revision_name="{revision}"}',),
        errors=(
            'revision_request_count{namespace_name="{namespace}",revision_name="{revision}",'
            f"response_code{_HTTP_FAILED}}}",
        ),
        latency=(
            'revision_request_latencies_bucket{namespace_name="{namespace}",revision_name="{revision}"}',
        ),
        watched=(f"up{{{_KNATIVE_POD}}}",),
        sees=_KNATIVE_SEES,
    ),
    "knative_otel": QuerySet(
        "Knative from 1.19 on, whose metrics are OpenTelemetry's: the queue-proxy of each pod "
        "(request-metrics-protocol: prometheus). It counts HTTP statuses only. The series name no revision, so "
        "it is taken from the label `pod` that the Prometheus operator adds; where they are pushed by OTLP and "
        'kn.revision.name is promoted to a label, override with kn_revision_name="{revision}".',
        requests=(f"http_server_request_duration_seconds_count{{{_KNATIVE_POD}}}",),
        errors=(
            f"http_server_request_duration_seconds_count{{{_KNATIVE_POD},"
            f"http_response_status_code{_HTTP_FAILED}}}",
        ),
        latency=(f"http_server_request_duration_seconds_bucket{{{_KNATIVE_POD}}}",),
        watched=(f"up{{{_KNATIVE_POD}}}",),
        latency_unit="s",
        sees=_KNATIVE_SEES,
    ),
    "istio": QuerySet(
        "Istio's standard metrics as the gateway and the callers' proxies report them (reporter=source), by the "
        "revision's Service. A request that its own client gave up (response code 0, flag DC) is an error, of stable's "
        "as of the candidate's; one that is not over is not seen.",
        requests=(f"istio_requests_total{{{_ISTIO_REVISION}}}",),
        errors=(
            f'istio_requests_total{{{_ISTIO_REVISION},grpc_response_status="",response_code{_ISTIO_FAILED}}}',
            f'istio_requests_total{{{_ISTIO_REVISION},grpc_response_status=~"[2-9]|1[0-9]"}}',
            f'istio_requests_total{{{_ISTIO_REVISION},grpc_response_status="",'
            f"response_code{_ISTIO_NO_FAILURE},{_ISTIO_GONE}}}",
            f'istio_requests_total{{{_ISTIO_REVISION},grpc_response_status=~"0|1",{_ISTIO_GONE}}}',
        ),
        latency=(f"istio_request_duration_milliseconds_bucket{{{_ISTIO_REVISION}}}",),
        watched=(f'istio_requests_total{{{_ISTIO},destination_service_name=~"{{inference_service}}-.+"}}',),
        status_label=("request_protocol", "grpc", "grpc_response_status"),
        sees=replace(ENVOY_SEES, hanging=False),
    ),
    "envoy_gateway": QuerySet(
        "Envoy Gateway from 1.9 on with `mergeBackends: BestEffort` in its EnvoyProxy, for then each Service has "
        "a cluster of its own, service/NAMESPACE/NAME/PORT/PROTOCOL. Without it both backends of a rule share "
        "one cluster and cannot be distinguished. It counts HTTP statuses only, and requests that were never answered.",
        requests=(f"envoy_cluster_upstream_rq{{{_GATEWAY_CLUSTER}}}",),
        errors=(f"envoy_cluster_upstream_rq{{{_GATEWAY_CLUSTER},envoy_response_code{_HTTP_FAILED}}}",),
        latency=(f"envoy_cluster_upstream_rq_time_bucket{{{_GATEWAY_CLUSTER}}}",),
        watched=(f"envoy_cluster_membership_total{{{_GATEWAY_CLUSTER}}}",),
        begun=(f"{{{_ENVOY_BEGUN},{_GATEWAY_CLUSTER}}}",),
        retried=(f"envoy_cluster_upstream_rq_retry{{{_GATEWAY_CLUSTER}}}",),
        active=(f"{{{_ENVOY_ACTIVE},{_GATEWAY_CLUSTER}}}",),
        ageless=("envoy_cluster_name", ".*"),
        sees=replace(ENVOY_SEES, grpc_errors=False),
    ),
    "triton": QuerySet(
        "Triton's own counters, without latency: 2.51 has no histogram of it. An error that a Python backend "
        "answers for a single request counts there as a success (triton-inference-server/server#7713), and what "
        "never reached Triton is not seen: prefer a router's counters. The labels `namespace` and `pod` are the "
        "Prometheus operator's.",
        requests=(
            f'nv_inference_request_success{{{_KNATIVE_POD},model="{{model}}"}}',
            f'nv_inference_request_failure{{{_KNATIVE_POD},model="{{model}}"}}',
        ),
        errors=(f'nv_inference_request_failure{{{_KNATIVE_POD},model="{{model}}",reason!="CANCELED"}}',),
        # No counter of what began; the gauge of pending requests holds those in the queue alone.
        sees=Visibility(
            http_errors=False,
            grpc_errors=False,
            given_up=False,
            hanging=False,
            stream_errors=False,
            latency=False,
        ),
    ),
    "envoy": QuerySet(
        "An Envoy that has a cluster REVISION|http and a cluster REVISION|grpc for each revision, and the filter "
        "grpc_stats, as the sandbox's has.",
        requests=(
            'envoy_cluster_upstream_rq{envoy_cluster_name="{revision}|http"}',
            '{__name__=~"envoy_cluster_grpc_[0-9]+",envoy_cluster_name="{revision}|grpc"}',
        ),
        errors=(
            f'envoy_cluster_upstream_rq{{envoy_cluster_name="{{revision}}|http",envoy_response_code{_HTTP_FAILED}}}',
            '{__name__=~"envoy_cluster_grpc_([2-9]|1[0-9])",envoy_cluster_name="{revision}|grpc"}',
        ),
        latency=('envoy_cluster_upstream_rq_time_bucket{envoy_cluster_name=~"{revision}[|](http|grpc)"}',),
        watched=('envoy_cluster_membership_total{envoy_cluster_name="{revision}|http"}',),
        begun=(f'{{{_ENVOY_BEGUN},envoy_cluster_name=~"{{revision}}[|](http|grpc)"}}',),
        retried=('envoy_cluster_upstream_rq_retry{envoy_cluster_name=~"{revision}[|](http|grpc)"}',),
        active=(f'{{{_ENVOY_ACTIVE},envoy_cluster_name=~"{{revision}}[|](http|grpc)"}}',),
        ageless=("envoy_cluster_name", ".*[|]grpc"),
        sees=ENVOY_SEES,
    ),
}


def release_values(spec: ReleaseSpec) -> dict[str, str]:
    """Return what the placeholders stand for in a release, less the revision."""
    return {
        "inference_service": spec.rollout.inference_service,
        "model": spec.model,
        "namespace": spec.rollout.namespace,
    }


_TITLES = {
    "requests": "requests",
    "errors": "errors among them",
    "latency": "latency, cumulative buckets",
    "begun": "attempts as they begin, answered or not",
    "retried": "attempts that are tried again",
    "active": "a gauge: what has begun and is not over",
    "watched": "watched: fresh and above 0, so that a counter that is lacking is 0",
}


def described(queries: QuerySet, lookback_s: int) -> str:
    """Return the set for people: every query as it is sent, and what it is for."""
    lines = [f"# {queries.description}"]
    for kind in KINDS:
        unit = f" (`le` in {queries.latency_unit})" if kind == "latency" else ""
        lines += ["", f"# {_TITLES[kind]}{unit}"]
        found = [query for of_kind, query in queries.queries(lookback_s) if of_kind == kind]
        lines += found or ["# none"]
    return "\n".join(lines)
