"""The clients as a process of their own, seen from whoever starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Self

from slipway_core.errors import SlipwayError
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.settings import MARKER, PROJECT_ROOT
from slipway_sandbox.load.answers import Answer, AnswerFile
from slipway_sandbox.load.clients import PROTOCOLS, REQUEST_TIMEOUT_S
from slipway_sandbox.load.request_set import RequestSet

START_LIMIT_S = 60.0

_POLL_S = 0.2
_STOP_LIMIT_S = REQUEST_TIMEOUT_S + 5.0


class OpenLoad:
    """Clients that ask a model all the time; a context manager, at whose exit they have ended.

    Use it from a thread that lives on: to the kernel, the parent whose death ends the clients is that thread. They
    have a process group of their own, so that Ctrl-C on a terminal does not reach them before their owner.

    :param authority: the host name of the InferenceService.
    :param output: where the answers are written; what lies there before is removed.
    :param sandbox_root: the root of the sandbox or lab, whose end is the clients' end too.
    :param protocols: over which the model is asked; each counts, so the model must answer over all of them.
    :param in_flight_limit: how many requests of one protocol may wait for an answer; None: any number.
    :param start_limit_s: how long the model may take until it gives its first answers, for which the entrance waits;
        None: the entrance does not wait.
    """

    def __init__(
        self,
        requests: RequestSet,
        *,
        port: int,
        authority: str,
        model: str,
        rate_rps: float,
        output: Path,
        sandbox_root: Path,
        protocols: Collection[str] = PROTOCOLS,
        in_flight_limit: int | None = None,
        start_limit_s: float | None = START_LIMIT_S,
    ) -> None:
        self.output = output
        self._requests = requests
        self._start_limit_s = start_limit_s
        self._environment = {**os.environ, MARKER: str(sandbox_root)}
        self._command = [
            *(sys.executable, "-m", "slipway_sandbox.load"),
            *("--port", str(port), "--authority", authority, "--model", model),
            *("--requests", str(self._requests_file), "--rate-rps", str(rate_rps), "--output", str(output)),
            *("--protocols", *protocols),
            *(() if in_flight_limit is None else ("--in-flight-limit", str(in_flight_limit))),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._file = AnswerFile(output)
        self._answers: list[Answer] = []

    @property
    def _requests_file(self) -> Path:
        return self.output.with_suffix(".requests.npz")

    def __enter__(self) -> Self:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.unlink(missing_ok=True)
        self._requests.save(self._requests_file)
        self._log = self.output.with_suffix(".log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=PROJECT_ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        if self._start_limit_s is not None:
            try:
                self._wait_for_answers(self._start_limit_s)
            except BaseException:
                self.stop()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answers(self) -> list[Answer]:
        """Return what was answered so far."""
        self._answers += self._file.new_answers()
        return list(self._answers)

    def stop(self) -> list[Answer]:
        """Stop sending, wait for what is in flight, and return all answers. May be called twice."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        return self.answers()

    def _wait_for_answers(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not (self.output.exists() and self.output.stat().st_size):
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise SlipwayError(
                    "the clients got no answer",
                    expected=f"a good one over each protocol within {limit_s:.0f} s",
                    found=self._log.read_text(errors="replace")[-800:] or "none",
                )
            time.sleep(_POLL_S)
