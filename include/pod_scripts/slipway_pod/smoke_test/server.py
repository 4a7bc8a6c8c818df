"""One tritonserver on loopback, in explicit mode: started, looked at, ended with all that it started."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.program.keys import without_keys
from slipway_pod.program.subprograms import LAUNCHER, require_program

HOST = "127.0.0.1"
SERVER = "tritonserver"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where the kernel keeps it
STARTS = 3
LOOK_S = 0.02
WATCH_S = 0.5
# Of a call that any living server answers at once.
CALL_S = 10.0
# How long a server that has closed a connection may take to end.
END_S = 2.0
LINES = 12
LINE_CHARACTERS = 400
LOG_READ_BYTES = 32 * 2**20
# If no line of Triton's log contains one of these, the last `LINES` lines are reported instead.
TELLING = re.compile(
    r"^[EF]\d{4} |error|fail|signal|terminat|abort|exception|assert|not found|no such|cannot|denied",
    re.IGNORECASE,
)
# No fault of a model ends a server so: the kernel's OOM killer does, a node that is drained, a person.
FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
# What a shell, and the loader of shared libraries, end with where a program could not even begin.
NEVER_BEGAN = frozenset({126, 127})
PROC = Path("/proc")


@dataclass(frozen=True)
class Reply:
    """What the server's HTTP endpoint answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def error(self) -> str:
        """Return the error in it, or the beginning of what it is."""
        with contextlib.suppress(ValueError, AttributeError):
            return str(json.loads(self.body).get("error", ""))[:LINE_CHARACTERS]
        return self.body[:LINE_CHARACTERS].decode(errors="replace")


class OwnServer:
    """A tritonserver over a folder of models. A context manager: at the end of the block nothing of it is left."""

    def __init__(
        self, repository: Path, log: Path, *, start_timeout_s: float, exit_timeout_s: int = 5
    ) -> None:
        """Keep where the models lie and where the server's log shall lie; nothing is started yet."""
        self.repository = repository
        self.log = log
        self.http_port = self.grpc_port = self.metrics_port = 0
        self._start_timeout_s = start_timeout_s
        self._exit_timeout_s = exit_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._prefix = f"slipway-smoke-{uuid.uuid4().hex[:12]}-"
        self._never_began: int = 0

    def __enter__(self) -> OwnServer:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Return the process's number, which is its session's as well."""
        assert self._process is not None  # noqa: S101  it was started
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return how it ended, below 0 by a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def ended(self, within_s: float = 0.0) -> str:
        """Return in words how it ended; empty while it runs.

        :param within_s: how long to wait for the end of a server that has closed a connection.
        :raises PodError: somebody else ended it, or what it started never began: no fault of the model.
        """
        if self._process is not None and within_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(within_s)
        if self._never_began:
            raise self._broken_platform()
        code = self.exit_code()
        if code is None:
            return ""
        # Told to end by SIGTERM, a tritonserver ends with 0.
        if -code in FROM_OUTSIDE or code == 0:
            raise PodError(
                "UserError",
                "The tritonserver in this pod was ended from outside",
                expected="that it runs until the smoke test is done",
                found="; ".join(
                    [signal.Signals(-code).name if code else "exit code 0", *self.telling_lines()[-2:]]
                )[:1500],
                remedy="the version was not judged: raise `smoke_test.resources.memory` if the node's log tells of an "
                "OOM kill, then release it again",
            )
        if code < 0:
            return f"the server was ended by {signal.Signals(-code).name}"
        return f"the server ended with exit code {code}"

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> Reply:
        """Ask its HTTP endpoint on its own connection.

        :raises OSError: no answer; TimeoutError after the limit.
        """
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=timeout_s)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, answer.read(), dict(answer.getheaders()))
        except http.client.HTTPException as error:
            raise ConnectionError(type(error).__name__) from error
        finally:
            connection.close()

    def is_live(self) -> bool:
        """Return whether the server answers."""
        with contextlib.suppress(OSError):
            return self.exit_code() is None and self.call("GET", "/v2/health/live").status == 200
        return False

    def config(self, model: str) -> dict[str, Any]:
        """Return a model's configuration as the server has completed it.

        :raises OSError: no answer.
        """
        reply = self.call("GET", f"/v2/models/{model}/config")
        found = json.loads(reply.body) if reply.status == 200 else {}
        return found if isinstance(found, dict) else {}

    def gpu_bytes(self) -> int | None:
        """Return the memory in use on all GPUs; None if the server sees none."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            connection = http.client.HTTPConnection(HOST, self.metrics_port, timeout=CALL_S)
            try:
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode(errors="replace")
            finally:
                connection.close()
            found = re.findall(r"^nv_gpu_memory_used_bytes\{[^}]*\} ([0-9.e+]+)$", text, re.MULTILINE)
            return int(sum(map(float, found))) if found else None
        return None

    def log_size(self) -> int:
        """Return how much it has logged, to read on from there."""
        return self.log.stat().st_size if self.log.exists() else 0

    def log_text(self, since: int = 0) -> str:
        """Return what it has logged since, of very much the end: the model writes there too."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(since, self.log_size() - LOG_READ_BYTES))
            return file.read(LOG_READ_BYTES).decode(errors="replace")

    def telling_lines(self, since: int = 0) -> list[str]:
        """Return the lines of its log that most likely name a failure's cause."""
        lines = [line.strip()[:LINE_CHARACTERS] for line in self.log_text(since).splitlines() if line.strip()]
        return ([line for line in lines if TELLING.search(line)] or lines)[-LINES:]

    def stop(self) -> None:
        """End it at once, with all that it started, and what it left in shared memory."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for region in SHARED_MEMORY.glob(f"{self._prefix}*"):
            region.unlink(missing_ok=True)

    def _start(self) -> None:
        """Start it and wait until it answers; another program may take one of its ports meanwhile.

        :raises PodError: the image has no such program, or it does not start.
        """
        program = require_program(SERVER, "use the image slipway/smoke-test, whose base is Triton's")
        for attempt in range(1, STARTS + 1):
            self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
            self._launch(program)
            if self._answers():
                return
            reason, lines = self.ended() or "it does not answer", self.telling_lines()
            self.stop()
            taken = any(
                "address already in use" in line.lower() or "socket" in line.lower() for line in lines
            )
            if not taken or attempt == STARTS:
                what = "A tritonserver without any model does not start in this pod"
                remedy = "read the pod's log; give the pod the memory, and the GPU, that the server needs"
                raise PodError("UserError", what, found="; ".join([reason, *lines[-2:]])[:600], remedy=remedy)

    def _broken_platform(self) -> PodError:
        return PodError(
            "UserError",
            "Triton cannot start the program that runs a model in this pod",
            expected="that the backend's own program starts",
            found="; ".join([f"exit code {self._never_began}", *self.telling_lines()[-2:]])[:1500],
            remedy="the version was not judged: fix the pod's image (its backend's program, its shared libraries), "
            "then release it again",
        )

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """End the server where a program that it starts cannot begin: it would wait for that until a limit."""
        while process.poll() is None:
            self._never_began = _child_that_never_began(process.pid)
            if self._never_began:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return
            time.sleep(WATCH_S)

    def _launch(self, program: str) -> None:
        options = {
            "model-repository": self.repository,
            "model-control-mode": "explicit",
            "http-address": HOST,
            "http-port": self.http_port,
            "grpc-address": HOST,
            "grpc-port": self.grpc_port,
            "metrics-address": HOST,
            "metrics-port": self.metrics_port,
            "strict-readiness": "false",
            "exit-timeout-secs": self._exit_timeout_s,
            "backend-config": f"python,shm-region-prefix-name={self._prefix}",
        }
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), "0"]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*launcher, program, *(f"--{name}={value}" for name, value in options.items())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=server_environment(),
                # A session of its own: by it the processes that it starts are found, for their memory and their end.
                start_new_session=True,
            )
        # What it has started holds its connections open, so that nobody would learn of its death.
        threading.Thread(target=_end_with, args=(self._process,), daemon=True).start()
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def _answers(self) -> bool:
        limit = time.monotonic() + self._start_timeout_s
        while time.monotonic() < limit and self.exit_code() is None:
            with contextlib.suppress(OSError):
                if self.call("GET", "/v2/health/live", timeout_s=1.0).status == 200:
                    return True
            time.sleep(LOOK_S)
        return False


def server_environment() -> dict[str, str]:
    """Return this program's environment without its own packages, which Triton's Python backend would take.

    And without its keys: the model's program runs there.
    """
    inherited = {name: value for name, value in without_keys(os.environ).items() if name != "PYTHONPATH"}
    return {**inherited, "PYTHONDONTWRITEBYTECODE": "1"}  # no __pycache__ in a model's folder


def _end_with(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a server, then end what it has started."""
    process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _child_that_never_began(server: int) -> int:
    """Return with what a child of the server ended that could not begin to run its program; 0 where there is none."""
    for path in PROC.iterdir():
        if not path.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            # Of one that has ended and was not asked for yet: state, parent, and as the last field how it ended.
            if fields[0] == "Z" and int(fields[1]) == server:
                code = os.waitstatus_to_exitcode(int(fields[-1]))
                if code in NEVER_BEGAN:
                    return code
    return 0


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]
