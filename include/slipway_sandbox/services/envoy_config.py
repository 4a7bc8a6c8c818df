"""Envoy's configuration: the fixed start file, and the documents of clusters and routes that it watches.

Each revision is two clusters, `REVISION|http` and `REVISION|grpc`, so that Envoy counts answers, gRPC statuses and
latencies apart for each, under `/stats/prometheus` of its admin port. A host that leads to one revision alone has
clusters of its own to the same server, `REVISION~TAG|http`: whoever asks there is no user, and is not counted among
the users. Mirrored copies are counted apart likewise, in `mirror~PORT|http`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.routing import Backend, Ingress, Mirror, Routing

Document = dict[str, Any]

PROTOCOLS = ("http", "grpc")
ROUTE_CONFIG = "slipway"
REVISION_HEADER = "x-slipway-revision"
"""The response header that names the revision to which the router sent the request."""
# Upper bounds, in milliseconds, of the latency histogram's buckets.
LATENCY_BUCKETS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000)
# Counters are live; histograms are as old as the last flush, so that is short.
STATS_FLUSH_INTERVAL = "1s"
REQUEST_TIMEOUT = "300s"
# Requests whose answers are streams are counted by themselves, for each ingress: what is inside them no status tells.
STREAMS: Document = {
    "name": "streams",
    "headers": [
        {
            "name": ":path",
            "string_match": {
                "safe_regex": {
                    "regex": r"/inference\.GRPCInferenceService/ModelStreamInfer|/v2/models/.+/generate_stream"
                }
            },
        }
    ],
}
# A mirror that hangs must not pile up copies: what is beyond these is not mirrored.
MIRROR_BOUNDS = {"max_connections": 16, "max_pending_requests": 64, "max_requests": 64}


def cluster_name(target: str, protocol: str) -> str:
    """Return the name under which Envoy counts a target's traffic; `protocol` is "http" or "grpc"."""
    return f"{target}|{protocol}"


def target_name(revision: str, tag: str) -> str:
    """Return what a revision is called in a cluster's name, for the users' ingress or for that of a tag."""
    return f"{revision}~{tag}" if tag else revision


def cluster_documents(routing: Routing) -> list[Document]:
    """Return two clusters for each revision, for each tag that leads to one, and for each mirror."""
    backends = {backend.revision: backend for backend in routing.backends}
    targets: dict[str, Backend | Mirror] = dict(backends)
    for ingress in routing.ingresses:
        if ingress.tag:
            targets |= {
                target_name(revision, ingress.tag): backends[revision]
                for revision, percent in ingress.percents
                if percent
            }
        if ingress.mirror is not None:
            targets[ingress.mirror.name] = ingress.mirror
    return [
        _cluster(cluster_name(name, protocol), protocol, target)
        for name, target in targets.items()
        for protocol in PROTOCOLS
    ]


def _cluster(name: str, protocol: str, target: Backend | Mirror) -> Document:
    port = target.grpc_port if protocol == "grpc" else target.http_port
    bounds: Document = (
        {"circuit_breakers": {"thresholds": [MIRROR_BOUNDS]}} if isinstance(target, Mirror) else {}
    )
    explicit: Document = (
        {"http2_protocol_options": {}} if protocol == "grpc" else {"http_protocol_options": {}}
    )
    address = {"socket_address": {"address": LOOPBACK, "port_value": port}}
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        **bounds,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": explicit,
            }
        },
    }


def route_document(ingresses: Iterable[Ingress]) -> Document:
    """Return the one route configuration: a virtual host for each ingress, gRPC apart from HTTP."""
    return {
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "name": ROUTE_CONFIG,
        "virtual_hosts": [
            {
                "name": ingress.name,
                "domains": list(ingress.hosts),
                "virtual_clusters": [STREAMS],
                "routes": [
                    {"match": {"prefix": "/", "grpc": {}}, "route": _action(ingress, "grpc")},
                    {"match": {"prefix": "/"}, "route": _action(ingress, "http")},
                ],
            }
            for ingress in ingresses
        ],
    }


def _action(ingress: Ingress, protocol: str) -> Document:
    clusters = [
        {
            "name": cluster_name(target_name(revision, ingress.tag), protocol),
            "weight": percent,
            # So that a client can tell which revision answered, also where the answer is an error.
            "response_headers_to_add": [{"header": {"key": REVISION_HEADER, "value": revision}}],
        }
        for revision, percent in ingress.percents
        if percent
    ]
    copies = [] if ingress.mirror is None else [{"cluster": cluster_name(ingress.mirror.name, protocol)}]
    return {
        "weighted_clusters": {"clusters": clusters},
        "request_mirror_policies": copies,
        "timeout": REQUEST_TIMEOUT,
        # Only what cannot have reached the server is tried again: an inference may not run twice unseen.
        "retry_policy": {"retry_on": "connect-failure,refused-stream", "num_retries": 2},
    }


def write_discovery(path: Path, resources: list[Document]) -> str:
    """Replace a discovery file whole, unless it says the same already, and return its version."""
    version = hashlib.sha256(json.dumps(resources, sort_keys=True).encode()).hexdigest()[:16]
    text = json.dumps({"version_info": version, "resources": resources}, indent=1)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        replace_file(path, text)  # Envoy acts on a move into the folder
    return version


def bootstrap(directory: Path, ingress_port: int, admin_port: int) -> Document:
    """Return Envoy's start configuration; it names the two watched files of `directory`."""
    return {
        "admin": {"address": {"socket_address": {"address": LOOPBACK, "port_value": admin_port}}},
        "node": {"id": "sandbox", "cluster": "sandbox"},
        "stats_flush_interval": STATS_FLUSH_INTERVAL,
        "stats_config": {
            "histogram_bucket_settings": [
                {"match": {"suffix": "upstream_rq_time"}, "buckets": list(LATENCY_BUCKETS_MS)},
            ]
        },
        "dynamic_resources": {"cds_config": _watched(directory / "clusters.json")},
        "static_resources": {
            "listeners": [
                {
                    "name": "ingress",
                    "address": {"socket_address": {"address": LOOPBACK, "port_value": ingress_port}},
                    "filter_chains": [{"filters": [_connection_manager(directory)]}],
                }
            ]
        },
    }


def _watched(path: Path) -> Document:
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}


def _connection_manager(directory: Path) -> Document:
    filters = "type.googleapis.com/envoy.extensions.filters"
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{filters}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "ingress",
            "codec_type": "AUTO",
            "strip_any_host_port": True,
            "rds": {"route_config_name": ROUTE_CONFIG, "config_source": _watched(directory / "routes.json")},
            "http_filters": [
                {
                    "name": "envoy.filters.http.grpc_stats",
                    "typed_config": {
                        "@type": f"{filters}.http.grpc_stats.v3.FilterConfig",
                        # Counted for the cluster as a whole: an HTTP status says nothing of a gRPC answer.
                        "stats_for_all_methods": False,
                    },
                },
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{filters}.http.router.v3.Router"},
                },
            ],
        },
    }
