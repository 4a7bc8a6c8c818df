"""The process of a release: killed, started again after a while, or left dead until it is called back."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from benchmarks.chaos.job import Job

_KILLED = -signal.SIGKILL


def context() -> ForkServerContext:
    """Where processes come from that have Airflow imported already, in the environment of the first start."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["benchmarks.chaos.release"])
    return found


class Attempts:
    """Runs one release until it has ended, whoever kills its process.

    :param back_after_s: how long a killed process stays away.
    :param report: is called with each thing that happens.
    """

    def __init__(
        self,
        processes: ForkServerContext,
        job: Job,
        folder: Path,
        back_after_s: float,
        report: Callable[[str], None],
    ) -> None:
        self._processes, self._back_after_s, self._report = processes, back_after_s, report
        self._arguments = (job, str(folder / "airflow.json"), str(folder / "release.log"))
        self._process: Any = None
        self._may_run, self._lock = threading.Event(), threading.Lock()
        self._may_run.set()
        self.kills = 0
        self.ended = threading.Event()
        self.crashed: int | None = None
        self.lost_at: float | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def kill(self, stays_dead: bool) -> None:
        """Kills it as the kernel would; where it runs not at this moment, its next process is meant."""
        with self._lock:
            if self.ended.is_set():
                return
            if stays_dead:
                self._may_run.clear()
                self.lost_at = self.lost_at or time.time()
            process = self._process
            if process is not None and process.is_alive():
                self.kills += 1
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    @property
    def is_lost(self) -> bool:
        """Whether it is dead and stays so."""
        return not self._may_run.is_set() and (self._process is None or not self._process.is_alive())

    def call_back(self) -> None:
        """Lets a lost one go on."""
        self._may_run.set()

    def _run(self) -> None:
        from benchmarks.chaos.release import run

        while True:
            self._may_run.wait()
            with self._lock:
                self._process = self._processes.Process(target=run, args=self._arguments, daemon=True)
                self._process.start()
            self._report(f"the release's process {self._process.pid} runs")
            self._process.join()
            code = self._process.exitcode
            if code != _KILLED:
                self.crashed = code or None
                self._report(f"the release's process has ended ({code})")
                self.ended.set()
                return
            self._report("the release's process was killed")
            time.sleep(self._back_after_s)
