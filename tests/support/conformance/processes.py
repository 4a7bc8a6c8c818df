"""Programs of the lane: each in a process group of its own, with a log, ended together whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import requests

from slipway_sandbox.host.child_process import end_with_parent

_LOG_TAIL_CHARACTERS = 3000
_END_GRACE_S = 5.0
_POLL_S = 0.05


class NotReadyError(Exception):
    """A program ended, or was not ready in time; the message has the end of its log."""


class Processes:
    """The programs of one cluster.

    :param folder: gets a log of each, `NAME.log`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        # How long each took to be ready, for people.
        self.ready_after_s: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        *command: str | Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        limit_s: float = 120.0,
    ) -> None:
        """Start a program and wait until it is ready.

        :raises NotReadyError: it ended, or took longer than the limit.
        """
        began_s = time.monotonic()
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                # Also where the tests are killed in a way that runs no clean-up.
                preexec_fn=end_with_parent,
            )
        self._running[name] = process
        while not _answers(ready):
            if process.poll() is not None:
                raise NotReadyError(f"{name} ended with {process.returncode}:\n{self._tail(name)}")
            if time.monotonic() - began_s > limit_s:
                raise NotReadyError(f"{name} was not ready within {limit_s:.0f} s:\n{self._tail(name)}")
            time.sleep(_POLL_S)
        self.ready_after_s[name] = time.monotonic() - began_s

    def pause(self, name: str) -> None:
        """Stop a program without ending it: it hangs."""
        os.killpg(self._running[name].pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a program that was paused go on."""
        os.killpg(self._running[name].pid, signal.SIGCONT)

    def memory_mib(self) -> dict[str, int]:
        """Return the resident memory of each program and its children, in MiB."""
        return {name: _resident_mib(process.pid) for name, process in self._running.items()}

    def ended_by_themselves(self) -> dict[str, int]:
        """Return the exit code of each program that runs no more, though nobody ended it."""
        codes = {name: process.poll() for name, process in self._running.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def stop_all(self) -> None:
        """End all, the last one first, and kill what does not end."""
        for name, process in reversed(self._running.items()):
            _signal_group(process, signal.SIGCONT)
            _signal_group(process, signal.SIGTERM)
            try:
                process.wait(_END_GRACE_S)
            except subprocess.TimeoutExpired:
                with self._log(name).open("ab") as log:
                    log.write(b"\nnot ended by SIGTERM: killed\n")
            _signal_group(process, signal.SIGKILL)
            process.wait(_END_GRACE_S)
        self._running.clear()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _tail(self, name: str) -> str:
        return self._log(name).read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL_CHARACTERS:]


def _answers(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except (OSError, requests.RequestException):
        return False


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _resident_mib(pid: int) -> int:
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
        return int(sum(one.memory_info().rss for one in family) / 2**20)
    except psutil.NoSuchProcess:
        return 0
