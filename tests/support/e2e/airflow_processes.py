"""Airflow's own processes in the sandbox: killed as the kernel kills them and let come back, or made to hang."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil

from include.sandbox.host.settings import SandboxSettings
from include.sandbox.host.supervise import Supervisor
from include.sandbox.services.airflow import component_commands

TRIGGERER = "airflow-triggerer"

_DOWN_LIMIT_S = 60.0
_POLL_S = 0.2


class AirflowProcesses:
    """What somebody does who has a shell on Airflow's machine."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._supervisor = Supervisor(settings)
        self._names = tuple(component_commands(settings))

    def kill(self, *names: str) -> float:
        """Kill programs with all that they have started, none of which gets a word out; returns when (unix seconds).

        Their supervisor starts them again at once.
        """
        at = time.time()
        doomed = [one for name in names for one in self._tree(self.pid(name))]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=_DOWN_LIMIT_S)
        return at

    def pid(self, name: str) -> int:
        """The program's process; 0 while there is none."""
        return next(one.pid for one in self._supervisor.states() if one.name == name)

    @contextmanager
    def all_dead(self) -> Iterator[float]:
        """Within it Airflow is dead and stays so; yields since when (unix seconds)."""
        at = self.kill(*self._names)
        try:
            self._hold_down(self._names)
            yield at
        finally:
            for name in self._names:
                self._supervisor.start(name)

    @contextmanager
    def all_hanging(self) -> Iterator[None]:
        """Within it all of Airflow stands still: it takes connections, answers nothing, and then goes on as if not.

        What writes to Airflow's database stands still with it: in the sandbox that is a file, and no server of its own.
        """
        still = [one for name in self._names for one in self._tree(self.pid(name))]
        try:
            for process in still:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            yield
        finally:
            for process in still:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def _hold_down(self, names: Sequence[str]) -> None:
        """End what the supervisor starts anew, until it has understood that it shall not."""
        deadline = time.monotonic() + _DOWN_LIMIT_S
        while up := [
            one.name for one in self._supervisor.states() if one.name in names and one.state != "STOPPED"
        ]:
            with ThreadPoolExecutor(len(up)) as threads:
                list(threads.map(self._supervisor.stop, up))
            if time.monotonic() > deadline:
                raise TimeoutError(f"{', '.join(up)} did not stay down for {_DOWN_LIMIT_S:.0f} s")
            time.sleep(_POLL_S)

    @staticmethod
    def _tree(pid: int) -> list[psutil.Process]:
        if not pid:
            return []
        try:
            process = psutil.Process(pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
