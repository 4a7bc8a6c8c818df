"""The clients of a fleet as a process of their own, seen from whoever starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from benchmarks.figure import MeasureError
from benchmarks.fleet.answers import FleetAnswer, read
from benchmarks.fleet.model import MODEL, requests
from benchmarks.fleet.servers import FleetServer
from benchmarks.sandbox import PROJECT_ROOT
from slipway_sandbox.load.answers import GrowingFile

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 20.0
_POLL_S = 0.05
# The clients tell more truly when an answer came if they need not wait for a processor; only root may ask for it.
_PRIORITY = -5


class FleetLoad:
    """Clients that ask every server all the time; a context manager, at whose exit they have ended.

    Use it from a thread that lives on: to the kernel, the parent whose death ends the clients is that thread.
    """

    def __init__(self, servers: Sequence[FleetServer], rate_rps: float, folder: Path) -> None:
        self._servers, self._rate_rps, self._folder = servers, rate_rps, folder
        self._file = GrowingFile(folder / "answers.jsonl")

    def __enter__(self) -> Self:
        set_of_requests = self._folder / "requests.npz"
        requests().save(set_of_requests)
        ports = [f"{one.name}={one.ports.http},{one.ports.grpc}" for one in self._servers]
        command = [
            *(sys.executable, "-m", "benchmarks.fleet.traffic", "--model", MODEL),
            *("--requests", str(set_of_requests), "--rate-rps", str(self._rate_rps)),
            *("--output", str(self._folder / "answers.jsonl")),
            *(part for one in ports for part in ("--server", one)),
        ]
        self._log = self._folder / "clients.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=PROJECT_ROOT,
                env={**os.environ, "PYTHONPATH": f"{PROJECT_ROOT}:{PROJECT_ROOT / 'include'}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            if os.geteuid() == 0:
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _PRIORITY)
            self._wait_for_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def new_answers(self) -> list[FleetAnswer]:
        """Return what was answered since the last call. MeasureError where the clients have ended."""
        if self._process.poll() is not None:
            raise MeasureError(f"the clients have ended: {self._log.read_text(errors='replace')[-800:]}")
        return read(self._file.new_lines())

    def _wait_for_all(self) -> None:
        """Wait until every server has given a good answer over both protocols."""
        missing = {(one.name, protocol) for one in self._servers for protocol in ("http", "grpc")}
        limit = time.monotonic() + _START_LIMIT_S
        while missing:
            if time.monotonic() > limit:
                raise MeasureError(f"no good answer of {sorted(missing)}; see {self._log}")
            missing -= {(one.server, one.protocol) for one in self.new_answers() if one.error is None}
            time.sleep(_POLL_S)
