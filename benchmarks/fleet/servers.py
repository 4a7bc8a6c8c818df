"""The tritonservers of a fleet, each over its own repository in S3, and what can be done to one of them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.request import Request, urlopen

from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

# Enough for the stub and numpy, and too little for the model's runtime.
MEMORY_LIMIT_KIB = 200 * 1024

_READY_LIMIT_S = 60.0
_ASK_LIMIT_S = 30.0


@dataclass
class FleetServer:
    """One server; `name` is that of its connection, too.

    :param folder: of this server's own: its log, its memory limit, its copy of the backends' folder.
    """

    name: str
    repository: str
    install: TritonInstall
    folder: Path
    environment: Mapping[str, str]
    ports: TritonPorts = field(default_factory=TritonPorts.free)
    is_stalled: bool = False
    starts: int = 0

    def __post_init__(self) -> None:
        """Lay out the folder."""
        self.folder.mkdir(parents=True)
        self._install = _limited(self.install, self.folder)
        self.process: TritonServer | None = None

    @property
    def pid(self) -> int:
        """Return the process id; 0 where no process was started."""
        started = None if self.process is None else self.process.process
        return 0 if started is None else started.pid

    @property
    def is_alive(self) -> bool:
        """Tell whether its process runs, stalled or not."""
        return self.process is not None and self.pid != 0 and self.process.exit_code() is None

    def start(self) -> None:
        """Start a process, empty of models, on the ports of the one before."""
        self.starts += 1
        self.process = TritonServer(
            self._install,
            self.repository,
            self.ports,
            mode="explicit",
            environment=self.environment,
            log_path=self.folder / f"triton-{self.starts}.log",
            exit_timeout_s=1,
        )
        self.process.start()

    def wait_ready(self) -> None:
        """Wait until the server answers."""
        assert self.process is not None
        self.process.wait_ready(_READY_LIMIT_S)

    def kill(self) -> None:
        """Kill the server and its models' processes, as a node that goes down would."""
        if self.process is not None and self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.stop(grace_s=5)
        self.is_stalled = False

    def stall(self) -> None:
        """Stop it, and the processes of its models, as a machine that hangs would."""
        os.killpg(self.pid, signal.SIGSTOP)
        self.is_stalled = True

    def resume(self) -> None:
        """Let a stalled one go on."""
        if self.is_stalled:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGCONT)
        self.is_stalled = False

    def limit_memory(self) -> None:
        """Give each model's process that is started from now on too little memory."""
        (self.folder / "out-of-memory").touch()

    def free_memory(self) -> None:
        """Give them what they ask for again."""
        (self.folder / "out-of-memory").unlink(missing_ok=True)

    def log_end(self, characters: int = 600) -> str:
        """Return the exit code and the end of the log of the present process."""
        path = self.folder / f"triton-{self.starts}.log"
        text = path.read_text(errors="replace") if path.is_file() else ""
        code = None if self.process is None else self.process.exit_code()
        return f"exit code {code}; {text[-characters:]}"

    def loaded(self) -> dict[str, list[int]]:
        """Return the versions that are ready, by model. OSError where the server does not answer."""
        request = Request(
            f"http://{LOOPBACK}:{self.ports.http}/v2/repository/index",
            data=b'{"ready": true}',
            headers={"Content-Type": "application/json", "Connection": "close"},
        )
        found: dict[str, list[int]] = {}
        with urlopen(request, timeout=_ASK_LIMIT_S) as answer:
            for row in json.load(answer):
                if row.get("state") == "READY":
                    found.setdefault(row["name"], []).append(int(row["version"]))
        return {name: sorted(versions) for name, versions in sorted(found.items())}

    def stop(self) -> None:
        """End it, whatever state it is in."""
        self.resume()
        if self.process is not None:
            self.process.stop(grace_s=3)


def _limited(install: TritonInstall, folder: Path) -> TritonInstall:
    """Return the server's folder with a stub that first looks whether this server's memory is to be limited."""
    own = folder / "server"
    # Triton follows no link out of a backend's folder.
    shutil.copytree(install.directory / "backends", own / "backends")
    for name in ("bin", "caches"):
        (own / name).symlink_to(install.directory / name)
    stub = own / "backends" / "python" / install.stub.name
    stub.unlink()
    limit = f"[ -e {shlex.quote(str(folder / 'out-of-memory'))} ] && ulimit -v {MEMORY_LIMIT_KIB}"
    stub.write_text(f'#!/bin/sh\n{limit}\nexec {shlex.quote(str(install.stub))} "$@"\n')
    stub.chmod(0o755)
    return replace(install, directory=own)
