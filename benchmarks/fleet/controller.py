"""One release of a fleet in a process of its own, which may be killed, stopped and run again at any time.

It is Slipway's own `release_fleet`. Each step that it decides on is written to a file before it is carried out, so that
whoever injects faults knows where it is.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from typing import Any

from benchmarks.fleet.job import Job
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.load.answers import GrowingFile


@dataclass(frozen=True)
class StepTaken:
    """A step as the controller decided on it, at a time (unix seconds)."""

    at: float
    act: str
    servers: tuple[str, ...]


def run(job: Job) -> None:
    """Release, and write what came of it to `outcome.json`."""
    end_with_parent()
    os.environ.update(job.environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    job.folder.mkdir(parents=True, exist_ok=True)
    log = os.open(job.folder / "controller.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True)
    from benchmarks.fleet.release import release

    outcome = release(job, job.folder / "steps.jsonl")
    (job.folder / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")


def context() -> ForkServerContext:
    """Return where processes come from that have the release's code imported already."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["benchmarks.fleet.release", "benchmarks.fleet.lab"])
    return found


class Controller:
    """A process that carries a release out."""

    def __init__(self, processes: ForkServerContext, job: Job) -> None:
        self.job = job
        self._steps = GrowingFile(job.folder / "steps.jsonl")
        self._process: Any = processes.Process(target=run, args=(job,), daemon=True)
        self._process.start()
        self.began = time.time()

    @property
    def has_ended(self) -> bool:
        """Tell whether the process has ended, by itself or killed."""
        return not self._process.is_alive()

    @property
    def outcome(self) -> dict[str, Any] | None:
        """Return what `release_fleet` said; None where it said nothing."""
        path = self.job.folder / "outcome.json"
        with suppress(FileNotFoundError, ValueError):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        return None

    def new_steps(self) -> list[StepTaken]:
        """Return the steps since the last call."""
        rows = [json.loads(line) for line in self._steps.new_lines()]
        return [StepTaken(row["at"], row["act"], tuple(row["servers"])) for row in rows]

    def kill(self) -> None:
        """Kill it as the kernel would, and wait until it is gone."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def stop(self) -> None:
        """Let it stand still."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def log_end(self, characters: int = 1500) -> str:
        """Return the end of its log."""
        with suppress(FileNotFoundError):
            return (self.job.folder / "controller.log").read_text(errors="replace")[-characters:]
        return ""

    def _signal(self, number: int) -> None:
        if self._process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
