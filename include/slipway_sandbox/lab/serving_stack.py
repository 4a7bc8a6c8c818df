"""The serving half of a sandbox as children of this process, so that each part can be killed and started again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil
from rich.console import Console

from slipway_core.errors import SlipwayError
from slipway_sandbox import lifecycle
from slipway_sandbox.host import processes
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.images import IMAGES_VARIABLE
from slipway_sandbox.host.progress import Steps, WaitFailedError
from slipway_sandbox.host.settings import (
    PROJECT_ROOT,
    SandboxSettings,
    connection_environment,
    sandbox_environment,
)

PARTS = ("object-store", "router", "cluster")
"""In the order in which they are started."""

_READY_LIMIT_S = 60.0
_END_LIMIT_S = 10.0
_QUIET = Steps(Console(quiet=True))


class Lab:
    """A context manager: inside the `with` its parts run, afterwards nothing of it does.

    Use it from the main thread: to the kernel, the parent whose death ends a part is the thread that started it.

    :param root: the folder of this lab's own; what an earlier lab left running there is ended first.
    :param parts: names of `lifecycle.programs`, in the order in which they are started.
    """

    settings: SandboxSettings

    def __init__(self, root: Path, parts: Sequence[str] = PARTS) -> None:
        self.root = root.resolve()
        self.parts = tuple(parts)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        lifecycle.down(self.root, _QUIET)
        # Free ports, also where a caller has pinned those of the sandbox beside it.
        inherited = {name: value for name, value in os.environ.items() if name == IMAGES_VARIABLE}
        self.settings = SandboxSettings.prepare(self.root, inherited)
        lifecycle.lay_out(self.settings)
        try:
            for part in self.parts:
                self.start(part)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def environment(self, airflow_home: Path) -> Mapping[str, str]:
        """Return what makes the hooks of this process reach the lab; to be set before Airflow is first imported."""
        return {
            **connection_environment(self.settings),
            "AIRFLOW_HOME": str(airflow_home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }

    def start(self, part: str) -> None:
        """Start a part and return when it is ready.

        :raises SlipwayError: it ended, or is not ready in time; with the end of its log.
        """
        argv = next(one.argv for one in lifecycle.programs(self.settings) if one.name == part)
        log_path = self.settings.log_dir / f"{part}.log"
        if part == "guard":
            # What an earlier one has touched says nothing about this one.
            self.settings.guard_alive_file.unlink(missing_ok=True)
        with log_path.open("ab") as log:
            self._processes[part] = process = subprocess.Popen(
                argv,
                cwd=PROJECT_ROOT,
                env=sandbox_environment(self.settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )
        check = lifecycle.program_checks(self.settings)[part.replace("-", " ")]
        try:
            _QUIET.wait_for_all({part: check}, _READY_LIMIT_S, lambda: _ended(process))
        except WaitFailedError as error:
            raise SlipwayError(
                f"the lab's {part} does not come up",
                expected=f"ready within {_READY_LIMIT_S:.0f} s",
                found=f"{error} {log_path.read_text(errors='replace')[-800:]}",
            ) from error

    def kill(self, part: str) -> None:
        """End a part as a crash would, and return when it is gone. The object store's content goes with it."""
        self._processes[part].kill()
        self._processes[part].wait()

    def triton_of(self, revision: str) -> psutil.Process:
        """Return the server of a revision, the newest where one is still on its way out.

        :raises SlipwayError: none runs.
        """
        servers = [one for one in processes.find_sandbox_processes(self.root, None) if _serves(one, revision)]
        if not servers:
            raise SlipwayError(f"no Triton serves the revision {revision!r}", expected="one tritonserver")
        return max(servers, key=lambda one: one.create_time())

    def tritons(self) -> list[psutil.Process]:
        """Return every server of a revision that runs; all of them die with the cluster."""
        found = processes.find_sandbox_processes(self.root, None)
        return [one for one in found if _serves(one, "")]

    def _end(self) -> None:
        for part in reversed(self.parts):
            process = self._processes.pop(part, None)
            if process is None:
                continue
            process.terminate()  # the cluster ends its servers itself
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        lifecycle.down(self.root, _QUIET)


def _ended(process: subprocess.Popen[bytes]) -> str | None:
    return None if process.poll() is None else f"It ended with exit code {process.returncode}."


def _serves(process: psutil.Process, revision: str) -> bool:
    try:
        folder = f"/revisions/{revision}-" if revision else "/revisions/"
        return process.name() == "tritonserver" and any(folder in word for word in process.cmdline())
    except psutil.Error:
        return False  # it has just ended
