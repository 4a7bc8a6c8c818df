"""A real Prometheus of a test's own, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.services.triton import TritonPorts
from tests.support.waiting import wait_until

SCRAPE_INTERVAL_S = 1.0


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """The path of Debian's Prometheus; without it, tests of CI fail and those of others are skipped."""
    return _program("prometheus")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of the tool that comes with Prometheus, as above."""
    return _program("promtool")


def _program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        sentence = f"There is no `{name}` here: apt-get install prometheus, and these tests run."
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
                self.running.wait(60)
            except subprocess.TimeoutExpired:
                self.running.kill()
                self.running.wait(60)
            self.running = None


@dataclass
class Prometheus:
    """A running Prometheus of a test's own."""

    port: int
    process: Process

    def query(self, query: str) -> list[dict[str, Any]]:
        """Return the series that an instant query gives.

        :raises urllib.error.HTTPError: Prometheus does not take the query.
        """
        form = urllib.parse.urlencode({"query": query}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query", form, 5) as answer:
            return list(json.load(answer)["data"]["result"])

    def ask(self, path: str) -> Any:
        """Return the data that an address of the API gives."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=5) as answer:
            return json.load(answer)["data"]

    def count(self, query: str) -> int:
        """How many series an instant query gives."""
        return len(self.query(query))

    def wait_for_series(self, query: str) -> None:
        """Wait until a query gives something."""

        def gives() -> bool:
            try:
                return self.count(query) > 0
            except OSError:
                return False

        wait_until(gives, f"Prometheus to know {query}")


class StartPrometheus(Protocol):
    """Starts a Prometheus that scrapes given targets every second."""

    def __call__(self, scrape_configs: list[dict[str, Any]], rules: Sequence[Path] = ()) -> Prometheus: ...


@pytest.fixture(scope="module")
def start_prometheus(
    prometheus_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartPrometheus]:
    """Starts a Prometheus that scrapes given targets every second, on loopback and with its own data."""
    started: list[Process] = []

    def start(scrape_configs: list[dict[str, Any]], rules: Sequence[Path] = ()) -> Prometheus:
        directory, port = tmp_path_factory.mktemp("prometheus"), TritonPorts.free().http
        config = {
            "global": {"scrape_interval": f"{SCRAPE_INTERVAL_S:g}s", "scrape_timeout": "1s"},
            "rule_files": [str(path) for path in rules],
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
