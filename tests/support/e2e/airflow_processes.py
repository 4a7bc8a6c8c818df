"""Airflow's own processes in the sandbox: killed as the kernel kills them, kept down, let come back, made to hang."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil

from slipway_sandbox.host.settings import SandboxSettings
from slipway_sandbox.host.supervise import Supervisor
from slipway_sandbox.services.airflow import component_commands

TRIGGERER, SCHEDULER = "airflow-triggerer", "airflow-scheduler"

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

    def has_restarted(self, name: str, killed: int) -> bool:
        """Whether the program runs as another process than the one that was killed."""
        pid = self.pid(name)
        return pid not in (0, killed) and psutil.pid_exists(pid)

    @contextmanager
    def dead_and_hanging(self) -> Iterator[None]:
        """Within it the scheduler is dead and stays so, and all else of Airflow hangs; then all goes on.

        What hangs takes connections and answers nothing, and does not know of it afterwards. The database hangs with
        those who write it: in the sandbox it is a file, and has no server that could be stopped.
        """
        still = [one for name in self._names if name != SCHEDULER for one in self._tree(self.pid(name))]
        self.kill(SCHEDULER)
        try:
            for process in still:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            self._hold_down((SCHEDULER,))
            yield
        finally:
            for process in still:
                with suppress(psutil.NoSuchProcess):
                    process.resume()
            self._supervisor.start(SCHEDULER)

    @contextmanager
    def dead(self) -> Iterator[None]:
        """Within it all of Airflow is dead and nobody starts it anew; then it is started."""
        supervisor = psutil.Process(self._supervisor.pid())
        doomed = [one for name in self._names for one in self._tree(self.pid(name))]
        supervisor.suspend()
        try:
            for process in doomed:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            yield
        finally:
            supervisor.resume()

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
