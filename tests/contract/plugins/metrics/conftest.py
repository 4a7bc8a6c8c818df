"""A real Prometheus before a real Envoy and two real Tritons, with clients that are counted."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from include.sandbox.host.child_process import end_with_parent
from include.sandbox.services.router import Router, envoy_argv
from include.sandbox.services.routing import Backend, Ingress, Routing
from include.sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.clients import HOST, ask_grpc, ask_http, grpc_client, wait_for
from tests.support.serving.models import table_model, write_repository
from tests.support.serving.triton_install import triton_install

# Airflow reads its home when it is first imported, which the test modules beside this file do.
_home = tempfile.TemporaryDirectory(prefix="slipway-airflow-")
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = _home.name
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

STABLE, CANDIDATE = "table-predictor-00001", "table-predictor-00002"
SCRAPE_INTERVAL_S = 1.0
# Of an input that begins with 10 or more ONNX Runtime makes an error.
GOOD, BAD = 1.0, 50.0


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """The path of Debian's Prometheus; without it, tests of CI fail and those of others are skipped."""
    program = shutil.which("prometheus")
    if program is None:
        sentence = "There is no `prometheus` here: apt-get install prometheus, and these tests run."
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return program


@dataclass
class Process:
    """A program that can be ended and started again as it was."""

    argv: list[str]
    log_path: Path
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.running = subprocess.Popen(
                self.argv, stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent
            )

    def end(self) -> None:
        if self.running is not None:
            self.running.terminate()
            try:
                self.running.wait(10)
            except subprocess.TimeoutExpired:
                self.running.kill()
                self.running.wait(10)
            self.running = None


@dataclass
class Prometheus:
    """A running Prometheus of a test's own."""

    port: int
    process: Process

    def count(self, query: str) -> int:
        """How many series an instant query gives."""
        form = urllib.parse.urlencode({"query": query}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query", form, 5) as answer:
            return len(json.load(answer)["data"]["result"])

    def wait_for_series(self, query: str) -> None:
        """Wait until a query gives something."""

        def gives() -> bool:
            try:
                return self.count(query) > 0
            except OSError:
                return False

        wait_for(gives, f"Prometheus to know {query}", 30)


StartPrometheus = Callable[[list[dict[str, Any]]], Prometheus]


@pytest.fixture(scope="module")
def start_prometheus(
    prometheus_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartPrometheus]:
    """Starts a Prometheus that scrapes given targets every second, on loopback and with its own data."""
    started: list[Process] = []

    def start(scrape_configs: list[dict[str, Any]]) -> Prometheus:
        directory, port = tmp_path_factory.mktemp("prometheus"), TritonPorts.free().http
        config = {
            "global": {"scrape_interval": f"{SCRAPE_INTERVAL_S:g}s", "scrape_timeout": "1s"},
            "scrape_configs": scrape_configs,
        }
        (directory / "prometheus.yml").write_text(json.dumps(config))
        argv = [
            prometheus_program,
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        process = Process(argv, directory / "log")
        started.append(process)
        process.start()
        return Prometheus(port, process)

    yield start
    for process in started:
        process.end()


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


@pytest.fixture(scope="module")
def served(prometheus_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRevisions]:
    """Two Tritons behind an Envoy: stable doubles, the candidate trebles, both fail when asked to."""
    install = triton_install()
    with ExitStack() as stack:
        servers: dict[str, TritonServer] = {}
        for name, factor in ((STABLE, 2.0), (CANDIDATE, 3.0)):
            directory = tmp_path_factory.mktemp(name)
            repository = write_repository(
                directory / "repository", versions={1: table_model(factor)}, more="dynamic_batching { }"
            )
            server = TritonServer(
                install, repository, TritonPorts.free(), log_path=directory / "log", exit_timeout_s=3
            )
            server.start()
            stack.callback(server.stop, 0.5)
            servers[name] = server
        for server in servers.values():
            server.wait_ready(30)
        backends = {name: Backend(name, one.ports.http, one.ports.grpc) for name, one in servers.items()}
        free = TritonPorts.free()
        envoy = stack.enter_context(
            envoy_before(backends, tmp_path_factory.mktemp("router"), (free.http, free.grpc))
        )
        yield ServedRevisions(free.http, free.grpc, envoy, servers)


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
