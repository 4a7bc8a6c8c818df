"""A real `tritonserver` from the wheel nvidia-pytriton, as a process on loopback.

`TritonServer` is one process that runs from a `TritonInstall`.

    python -m slipway_sandbox.services.triton --repository s3://… --mode explicit --http-port …
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slipway_core.errors import LoadRefusedError, ServerUnavailableError, SlipwayError, TimedOutError
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.services.shell_names import ShellNames, shell_names
from slipway_sandbox.services.triton_install import TritonInstall

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where the kernel keeps shared memory

# Of the log of a server that has ended, where no model is named.
LAST_LINES = 3

Mode = Literal["none", "explicit"]


@dataclass(frozen=True)
class TritonPorts:
    """The three ports of a server, all on 127.0.0.1."""

    http: int
    grpc: int
    metrics: int

    @classmethod
    def free(cls) -> TritonPorts:
        """Return three ports that nobody listens on now.

        :raises OSError: there are none
        """
        return cls(free_port(), free_port(), free_port())

    def require_free(self) -> None:
        """Raise `ServerUnavailableError` that names the port if one is taken."""
        for name, port in (("http", self.http), ("grpc", self.grpc), ("metrics", self.metrics)):
            with socket.socket() as probe:
                # As the server itself does: a port in TIME_WAIT is free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((LOOPBACK, port))
                except OSError as error:
                    raise ServerUnavailableError(
                        f"Triton's {name} port {LOOPBACK}:{port} is taken",
                        found=error.strerror,
                        remedy="End the program that listens there, or give another port.",
                    ) from None


class TritonServer:
    """One tritonserver process over `repository`, a folder or an `s3://` URL.

    `mode` "none" loads everything at start and exits if that fails; "explicit" loads what the model-control
    API asks for. `environment` is added to the process's own (AWS_* for a repository in S3). The process ends
    with its parent.
    """

    def __init__(
        self,
        install: TritonInstall,
        repository: str | Path,
        ports: TritonPorts,
        *,
        mode: Mode = "none",
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
        exit_timeout_s: int = 15,
        auto_complete_config: bool = False,
    ) -> None:
        self.install = install
        self.repository = str(repository)
        self.ports = ports
        self.mode: Mode = mode
        self.environment = dict(environment or {})
        self.log_path = log_path
        self.exit_timeout_s = exit_timeout_s
        self.auto_complete_config = auto_complete_config
        self.process: subprocess.Popen[bytes] | None = None
        # What a folder is called in the command line and the environment.
        self._named: Callable[[str | Path], str] = str
        self._prefix_base = f"slipway-{ports.http}-"
        # Two servers that share a prefix would share, and corrupt, each other's shared memory.
        self._prefix = f"{self._prefix_base}{uuid.uuid4().hex[:8]}-"

    def argv(self) -> list[str]:
        """Return the command line."""
        name = self._named
        directory = name(self.install.directory)
        options = {
            "model-repository": self.repository if "://" in self.repository else name(self.repository),
            "model-control-mode": self.mode,
            "backend-directory": f"{directory}/backends",
            "cache-directory": f"{directory}/caches",
            "http-address": LOOPBACK,
            "http-port": self.ports.http,
            "http-thread-count": 4,
            "grpc-address": LOOPBACK,
            "grpc-port": self.ports.grpc,
            "metrics-address": LOOPBACK,
            "metrics-port": self.ports.metrics,
            "allow-gpu-metrics": "false",
            "backend-config": f"python,shm-region-prefix-name={self._prefix}",
            "exit-timeout-secs": self.exit_timeout_s,
            "exit-on-error": "true",
        }
        flags = [] if self.auto_complete_config else ["--disable-auto-complete-config"]
        program = f"{directory}/bin/tritonserver"
        return [program, *(f"--{option}={value}" for option, value in options.items()), *flags]

    def env(self) -> dict[str, str]:
        """Return the process's environment: the caller's, less what would disturb Triton's interpreter."""
        return self.install.environment({**os.environ, **self.environment}, self._named)

    def _command(self, names: ShellNames) -> tuple[list[str], dict[str, str]]:
        """Return command line and environment, in which folders have these names."""
        self._named = names.name
        try:
            return self.argv(), self.env()
        finally:
            self._named = str

    def start(self) -> None:
        """Start the process; raises `ServerUnavailableError` if one of its ports is taken. See `wait_ready`.

        Call it from a thread that lives on: to the kernel, the parent whose death ends the process is that
        thread.
        """
        self.ports.require_free()
        self._sweep_shared_memory()
        with contextlib.ExitStack() as stack:
            output: int | object = subprocess.DEVNULL
            if self.log_path is not None:
                self.log_path.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(self.log_path.open("wb"))
            names = stack.enter_context(shell_names())
            argv, env = self._command(names)
            self.process = subprocess.Popen(
                argv,
                env=env,
                pass_fds=names.descriptors,
                stdin=subprocess.DEVNULL,
                stdout=output,  # type: ignore[arg-type]
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,  # safe among threads: one system call, no lock, no import
            )

    def exec(self) -> None:
        """Become the server: replaces this process, for a supervisor that wants to own it."""
        self.ports.require_free()
        self._sweep_shared_memory()
        end_with_parent()
        names = ShellNames()
        argv, env = self._command(names)
        names.inherit()
        os.execve(argv[0], argv, env)  # noqa: S606 - a list, no shell

    def is_ready(self, timeout_s: float = 1.0) -> bool:
        """Ask once whether the server, and in mode "none" every model of its repository, is ready."""
        connection = http.client.HTTPConnection(LOOPBACK, self.ports.http, timeout=timeout_s)
        try:
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            # A connection left open would hold SIGTERM for the whole exit timeout.
            connection.close()

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return None if self.process is None else self.process.poll()

    def require_alive(self) -> None:
        """Raise with the server's own words if the process has ended.

        :raises LoadRefusedError: it names a model that did not load.
        :raises ServerUnavailableError: it ended for another reason, which says nothing of any model.
        """
        code = self.exit_code()
        if code is None:
            return
        failures = self._load_failures()
        kind = LoadRefusedError if failures else ServerUnavailableError
        raise kind(
            f"Triton ended while it loaded {self.repository}" if failures else "Triton ended of itself",
            expected="a server that stays up",
            found=f"exit code {code}; {self.failure()}",
        )

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until ready.

        :raises LoadRefusedError: the process ends, since a model does not load.
        :raises ServerUnavailableError: it ends of itself.
        :raises TimedOutError: it is not ready at the limit.
        """
        limit = time.monotonic() + timeout_s
        while not self.is_ready():
            self.require_alive()
            if time.monotonic() > limit:
                raise TimedOutError(
                    f"Triton over {self.repository} is not ready",
                    expected=f"ready within {timeout_s:g} s",
                    found=self.failure(),
                )
            time.sleep(0.05)

    def failure(self) -> str:
        """Return what the log says went wrong: the load errors, or else its last lines."""
        if self.log_path is None or not self.log_path.is_file():
            return "no log was kept"
        lines = [line.strip() for line in self._log_text().splitlines() if line.strip()]
        return "; ".join(self._load_failures() or lines[-LAST_LINES:]) or "an empty log"

    def _log_text(self) -> str:
        if self.log_path is None or not self.log_path.is_file():
            return ""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def _load_failures(self) -> list[str]:
        return load_failures(self._log_text())

    def stop(self, grace_s: float | None = None) -> int | None:
        """End the process and return its exit code: SIGTERM, and after `grace_s` SIGKILL to its whole group.

        In-flight requests are answered first. Close keep-alive connections before: an open one holds the
        server for its whole exit timeout. `grace_s` defaults to a little more than that timeout.
        """
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.exit_timeout_s + 5 if grace_s is None else grace_s)
        # The group, always: a stub whose server was killed would linger for some seconds.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self._sweep_shared_memory()
        return code

    def _sweep_shared_memory(self) -> None:
        """Remove what a killed server on the same port left in shared memory; the port is free by now."""
        for region in SHARED_MEMORY.glob(f"{self._prefix_base}*"):
            region.unlink(missing_ok=True)


def load_failures(log: str) -> list[str]:
    """Return what the log says about each model version that did not load, without duplicates, in order."""
    found = re.findall(r"failed to load '([^']+)' version (\d+): (.+?)\"?$", log, flags=re.MULTILINE)
    # A Python traceback follows the message in the same line; it is in the log for whoever wants it.
    failures = [
        f"{model} version {version}: {reason.partition(chr(92) + 'n')[0]}" for model, version, reason in found
    ]
    failures += re.findall(r"Poll failed for model directory .+?(?=\"?$)", log, flags=re.MULTILINE)
    return list(dict.fromkeys(failures))


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m slipway_sandbox.services.triton", description="Run tritonserver here."
    )
    parser.add_argument("--repository", help="a folder or s3://… URL that holds the models")
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--metrics-port", type=int, default=8002)
    parser.add_argument("--mode", choices=("none", "explicit"), default="none", help="the model control mode")
    parser.add_argument("--exit-timeout-s", type=int, default=15)
    parser.add_argument("--venv", type=Path, help="the environment of the Triton image")
    parser.add_argument("--install-root", type=Path, help="where the private server folder is built")
    parser.add_argument(
        "--check", action="store_true", help="build and check the server folder, start nothing"
    )
    parsed = parser.parse_args(arguments)
    if not parsed.check and not parsed.repository:
        parser.error("--repository is needed")
    return parsed


def main(arguments: list[str] | None = None) -> int:
    """Prepare the server folder and become the server; with `--check` only say whether that would work."""
    parsed = _arguments(arguments)
    try:
        install = TritonInstall.prepare(parsed.install_root, parsed.venv)
        if parsed.check:
            print(f"Triton from nvidia-pytriton {install.version} can start: {install.directory}")
            return 0
        ports = TritonPorts(parsed.http_port, parsed.grpc_port, parsed.metrics_port)
        TritonServer(
            install, parsed.repository, ports, mode=parsed.mode, exit_timeout_s=parsed.exit_timeout_s
        ).exec()
    except SlipwayError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
