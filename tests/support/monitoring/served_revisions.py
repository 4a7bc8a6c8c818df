"""Two revisions behind a real Envoy, half of the traffic for each, and clients whose answers are counted."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway_sandbox.services.router import Router, envoy_argv
from slipway_sandbox.services.routing import Backend, Ingress, Routing
from slipway_sandbox.services.triton import TritonServer
from tests.support.monitoring.prometheus import Process
from tests.support.serving.clients import HOST, ask_grpc, ask_http, grpc_client

STABLE, CANDIDATE = "table-predictor-00001", "table-predictor-00002"
# Of an input that begins with 10 or more ONNX Runtime makes an error.
GOOD, BAD = 1.0, 50.0


@dataclass
class ServedRevisions:
    """An Envoy with two revisions behind it, half of the traffic for each."""

    ingress_port: int
    admin_port: int
    envoy: Process
    tritons: Mapping[str, TritonServer]

    @property
    def scrape_configs(self) -> list[dict[str, Any]]:
        """What a Prometheus must scrape; the Tritons with the labels that the Prometheus operator adds."""
        tritons = [
            {
                "targets": [f"127.0.0.1:{server.ports.metrics}"],
                "labels": {"namespace": "models", "pod": f"{name}-deployment-5c7d8-x2b4z"},
            }
            for name, server in self.tritons.items()
        ]
        return [
            {
                "job_name": "router",
                "metrics_path": "/stats/prometheus",
                "static_configs": [{"targets": [f"127.0.0.1:{self.admin_port}"]}],
            },
            {"job_name": "triton", "static_configs": tritons},
        ]


@contextmanager
def envoy_before(
    backends: Mapping[str, Backend], directory: Path, ports: tuple[int, int]
) -> Iterator[Process]:
    """An Envoy that gives each of two revisions half of the requests."""
    process = Process(envoy_argv(directory, *ports), directory / "log")
    process.start()

    async def route() -> None:
        router = Router(directory, f"http://127.0.0.1:{ports[1]}")
        await router.wait_ready()
        half = Ingress("models/table", (HOST,), tuple((name, 50) for name in backends))
        await router.apply(Routing(tuple(backends.values()), (half,)))

    try:
        asyncio.run(route())
        yield process
    finally:
        process.end()


@dataclass
class Traffic:
    """Clients that ask over both protocols, one request in ten so that it fails, and how they were answered."""

    port: int
    answers: Counter[str] = field(default_factory=Counter)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Traffic:
        self._threads = [threading.Thread(target=loop) for loop in (self._http, self._grpc)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(20)

    def _http(self) -> None:
        for number in self._numbers():
            status, _ = ask_http(self.port, BAD if number % 10 == 0 else GOOD)
            self.answers["good" if status == 200 else "bad"] += 1

    def _grpc(self) -> None:
        with grpc_client(self.port) as client:
            for number in self._numbers():
                try:
                    ask_grpc(client, BAD if number % 10 == 0 else GOOD)
                    self.answers["good"] += 1
                except Exception:  # of a made-up failure only the count matters
                    self.answers["bad"] += 1

    def _numbers(self) -> Iterator[int]:
        """1, 2, … as fast as users might come, until it is over."""
        number = 0
        while not self._stop.wait(0.02):
            number += 1
            yield number
