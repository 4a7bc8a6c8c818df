"""supervisord's part: what it runs, its configuration, how it is started and spoken to."""

from __future__ import annotations

import http.client
import socket
import subprocess
import tempfile
import time
import xmlrpc.client
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway_sandbox.host.child_process import program_path
from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.processes import SessionRecord
from slipway_sandbox.host.settings import PROJECT_ROOT, SandboxSettings

# All programs are one group, because supervisord ends the members of a group together and groups one after
# another.
GROUP = "sandbox"
STOP_WAIT_S = 6
ANSWER_TIMEOUT_S = 15.0
# The longest path a Unix socket may have, less what supervisord adds while it binds.
SOCKET_PATH_LIMIT = 90


class SupervisorError(Exception):
    """The supervisor does not do what is asked; the message says what was expected, found, and what to do."""


@dataclass(frozen=True)
class Program:
    """One supervised process; `autostart` is false for those that wait until others are healthy."""

    name: str
    argv: tuple[str, ...]
    autostart: bool = True


@dataclass(frozen=True)
class ProgramState:
    """What the supervisor knows of a program: supervisord's word for its state, its pid (0: none), a description."""

    name: str
    state: str
    pid: int
    description: str


def socket_path(settings: SandboxSettings) -> Path:
    """Return where the supervisor listens: in the run folder, or in a short one where that path is too long."""
    path = settings.run_dir / "supervisor.sock"
    if len(str(path)) <= SOCKET_PATH_LIMIT:
        return path
    short = sha256(str(settings.root).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"slipway-{short}.sock"


def session_file(root: Path) -> Path:
    """Return where the supervisor's session is recorded: outside the run folder, which every start empties."""
    return root / "session.json"


def configuration(settings: SandboxSettings, programs: Iterable[Program]) -> str:
    """Return the text of supervisord.conf.

    Its programs inherit the supervisor's environment: no secret is in the file.
    """
    programs = list(programs)
    sections: dict[str, dict[str, object]] = {
        "unix_http_server": {"file": socket_path(settings), "chmod": "0700"},
        "rpcinterface:supervisor": {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
        },
        "supervisord": {
            "nodaemon": "false",
            "logfile": settings.log_dir / "supervisord.log",
            "pidfile": settings.run_dir / "supervisord.pid",
            "childlogdir": settings.log_dir,
            "directory": PROJECT_ROOT,
            "minfds": 1024,
        },
        f"group:{GROUP}": {"programs": ",".join(one.name for one in programs)},
    }
    for one in programs:
        sections[f"program:{one.name}"] = {
            "command": " ".join(_quoted(argument) for argument in one.argv),
            "autostart": str(one.autostart).lower(),
            "autorestart": "true",
            "startsecs": 1,
            "startretries": 3,
            "stopwaitsecs": STOP_WAIT_S,
            "stopasgroup": "true",
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": settings.log_dir / f"{one.name}.log",
            "stdout_logfile_maxbytes": "20MB",
            "stdout_logfile_backups": 1,
        }
    lines: list[str] = []
    for section, options in sections.items():
        # supervisord expands percent signs.
        lines += [
            f"[{section}]",
            *(f"{key} = {str(value).replace('%', '%%')}" for key, value in options.items()),
            "",
        ]
    return "\n".join(lines)


def _quoted(argument: str) -> str:
    """Return one argument as supervisord's parser reads it.

    It splits like a shell, and takes a semicolon for a comment.
    """
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def start_supervisor(
    settings: SandboxSettings, programs: Iterable[Program], environment: Mapping[str, str]
) -> None:
    """Start supervisord in a session of its own and record that session. Raises SupervisorError."""
    config = settings.run_dir / "supervisord.conf"
    replace_file(config, configuration(settings, programs), private=True)
    socket_path(settings).unlink(missing_ok=True)
    answer = subprocess.run(
        [program_path("supervisord"), "--configuration", str(config)],
        cwd=PROJECT_ROOT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ANSWER_TIMEOUT_S,
        check=False,
    )
    supervisor, deadline = Supervisor(settings), time.monotonic() + ANSWER_TIMEOUT_S
    while answer.returncode != 0 or not supervisor.is_alive():
        if answer.returncode != 0 or time.monotonic() > deadline:
            raise SupervisorError(
                f"supervisord did not start (exit code {answer.returncode}). Expected an answer on "
                f"{socket_path(settings)} "
                f"within {ANSWER_TIMEOUT_S:.0f} s; found: "
                f"{(answer.stdout + answer.stderr).strip()[-600:] or 'none'}. "
                f"Run `make down`, then try again."
            )
        time.sleep(0.05)
    SessionRecord.of(supervisor.pid()).save(session_file(settings.root))


class Supervisor:
    """Speaks to a running supervisord over its socket."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._socket = socket_path(settings)

    def is_alive(self) -> bool:
        """Return whether the supervisor answers."""
        try:
            return self.pid() > 0
        except SupervisorError:
            return False

    def pid(self) -> int:
        """Return its process id.

        :raises SupervisorError: it does not answer.
        """
        return int(self._call("supervisor.getPID"))

    def states(self) -> list[ProgramState]:
        """Return what the supervisor knows of each program.

        :raises SupervisorError: it does not answer.
        """
        answer = self._call("supervisor.getAllProcessInfo")
        return [ProgramState(one["name"], one["statename"], one["pid"], one["description"]) for one in answer]

    def start(self, name: str) -> None:
        """Start a program and return at once; nothing happens when it runs. Raises SupervisorError."""
        try:
            self._call("supervisor.startProcess", f"{GROUP}:{name}", False)
        except SupervisorError as error:
            if "ALREADY_STARTED" not in str(error):
                raise

    def stop(self, name: str) -> None:
        """End a program and wait until it has; nothing happens when it does not run.

        Raises SupervisorError.
        """
        try:
            self._call("supervisor.stopProcess", f"{GROUP}:{name}", True)
        except SupervisorError as error:
            if "NOT_RUNNING" not in str(error):
                raise

    def shut_down(self) -> None:
        """Ask it to end all programs and itself.

        :raises SupervisorError: it does not answer.
        """
        self._call("supervisor.shutdown")

    def _call(self, method: str, *arguments: object) -> Any:
        proxy = xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=_UnixTransport(self._socket))
        try:
            with proxy:
                return getattr(proxy, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            raise SupervisorError(
                f"supervisord refused {method}{arguments}: {fault.faultString}. See `make status`."
            ) from None
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise SupervisorError(
                f"supervisord does not answer on {self._socket}: {error}. The sandbox is not running; "
                "start it with `make up`."
            ) from None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=STOP_WAIT_S * 3)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _UnixTransport(xmlrpc.client.Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: object) -> http.client.HTTPConnection:
        return _UnixConnection(self._path)
