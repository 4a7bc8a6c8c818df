"""Starts, ends and describes a whole sandbox."""

from __future__ import annotations

import fcntl
import http.client
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

from slipway_sandbox.host import processes
from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.processes import SessionRecord
from slipway_sandbox.host.progress import Steps, WaitFailedError
from slipway_sandbox.host.settings import (
    MARKER,
    PROJECT_ROOT,
    REGION,
    SandboxSettings,
    SettingsError,
    object_store_environment,
    sandbox_root,
)
from slipway_sandbox.host.starting import PARTS, log_end, movement
from slipway_sandbox.host.supervise import (
    Program,
    Supervisor,
    SupervisorError,
    session_file,
    start_supervisor,
)
from slipway_sandbox.services import airflow, object_store

# However busy the machine is, what starts uses a processor now and then; what does not for so long hangs.
UP_STALL_LIMIT_S = 180.0
# What turns in a circle uses a processor as well.
UP_LIMIT_S = 1800.0
SHUT_DOWN_TIMEOUT_S = 20.0
# The guard looks every second, and may wait for the cluster's answer.
GUARD_SILENCE_S = 20.0
FATAL_STATES = ("FATAL", "UNKNOWN")


class LifecycleError(Exception):
    """The sandbox could not be started or ended.

    The message says what was expected, found, and what to do.
    """


def programs(settings: SandboxSettings) -> list[Program]:
    """Return all that runs in a sandbox.

    Those without autostart need another part at their own start: the object store, the router, the cluster.
    """
    ports = settings.ports
    module = (sys.executable, "-m")
    router = ("--directory", str(settings.router_dir), "--ingress-port", str(ports.ingress))
    staging = (
        "--repository",
        settings.staging_repository,
        "--mode",
        "explicit",
        "--venv",
        str(settings.images_dir / "triton"),
    )
    staging_ports = {"http": ports.staging_http, "grpc": ports.staging_grpc, "metrics": ports.staging_metrics}
    return [
        Program("object-store", (*module, "slipway_sandbox.services.object_store")),
        Program(
            "router",
            (*module, "slipway_sandbox.services.router", *router, "--admin-port", str(ports.router_admin)),
        ),
        *(Program(name, tuple(command)) for name, command in airflow.component_commands(settings).items()),
        Program(
            "cluster",
            (*module, "slipway_sandbox.emulator", "--config", str(cluster_file(settings))),
            autostart=False,
        ),
        Program(
            "staging-triton",
            (
                *(*module, "slipway_sandbox.services.triton", *staging),
                *(part for name, port in staging_ports.items() for part in (f"--{name}-port", str(port))),
            ),
            autostart=False,
        ),
        Program("guard", guard_command(settings), autostart=False),
    ]


def guard_command(settings: SandboxSettings) -> tuple[str, ...]:
    """Return what runs the guard of canaries.

    Without docstrings (-OO) the Kubernetes client takes half the memory.
    """
    places = ("--kubeconfig", str(settings.kubeconfig), "--alive-file", str(settings.guard_alive_file))
    return (sys.executable, "-OO", "-m", "slipway_guard", *places, "--poll-s", "1")


def cluster_file(settings: SandboxSettings) -> Path:
    """Return the settings of the emulated cluster."""
    return settings.run_dir / "cluster.json"


def cluster_configuration(settings: SandboxSettings) -> dict[str, object]:
    """Return the emulated cluster's settings.

    They are its address, its folders, and the environment of every pod.
    """
    return {
        "host": LOOPBACK,
        "port": settings.ports.cluster,
        "token_file": str(settings.token_file),
        "kubeconfig": str(settings.kubeconfig),
        "state_dir": str(settings.run_dir / "cluster"),
        "images_dir": str(settings.images_dir),
        "pod_scripts_dir": str(PROJECT_ROOT / "include" / "pod_scripts"),
        "node_env": object_store_environment(settings) | {MARKER: str(settings.root)},
        "kserve": {
            "router_dir": str(settings.router_dir),
            "router_admin_url": settings.router_admin_url,
            "ingress_port": settings.ports.ingress,
            "domain": settings.domain,
            "mirror": {"http_port": settings.ports.mirror_http, "grpc_port": settings.ports.mirror_grpc},
        },
    }


def cli_configuration(settings: SandboxSettings) -> str:
    """Return what the command `slipway` reads where it runs in this project: TOML, with the password in it."""
    store = {
        "bucket": settings.bucket,
        "endpoint_url": settings.object_store_url,
        "region": REGION,
        "access_key_id": settings.access_key,
        "secret_access_key": settings.secrets.object_store_secret,
    }
    access = {
        "airflow_url": settings.airflow_url,
        "user": settings.airflow_user,
        "password": settings.airflow_password,
    }
    # JSON's strings are TOML's.
    lines = [
        "# Made by `make up`, for the command slipway.",
        *_toml_lines(access),
        "",
        "[store]",
        *_toml_lines(store),
    ]
    return "\n".join(lines) + "\n"


def _toml_lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in values.items()]


def up(
    root: Path | None = None, steps: Steps | None = None, dags_folder: Path | None = None
) -> SandboxSettings:
    """Start the sandbox again and return when it is healthy; a sandbox that is healthy already is left as it is.

    :raises LifecycleError: it cannot be started; nothing is left running then.
    :raises SettingsError: a port is busy.
    """
    root, steps = root or sandbox_root(), steps or Steps()
    with _starting(root):
        running = _running(root)
        if running is not None:
            steps.say("The sandbox is up already.")
            return running
        if left := _leftovers(root):
            steps.say(f"Ending {len(left)} processes that an earlier sandbox left.")
            _end(left)
        settings = SandboxSettings.prepare(root)
        try:
            _start(settings, steps, dags_folder or PROJECT_ROOT / "dags")
        except BaseException as error:
            logs = settings.log_dir
            down(root, steps)
            if isinstance(error, (WaitFailedError, SupervisorError, airflow.AirflowError)):
                raise LifecycleError(
                    f"The sandbox could not be started. {error} Its logs are in {logs}."
                ) from error
            raise
    return settings


def down(root: Path | None = None, steps: Steps | None = None) -> int:
    """End everything of the sandbox, whoever started it and however that one ended.

    Returns how many processes it found.

    :raises LifecycleError: one of them survives.
    """
    root, steps = root or sandbox_root(), steps or Steps()
    left = _leftovers(root)
    if left:
        with steps.step("Everything ended"):
            _shut_down_supervisor(root)
            # Found again after the supervisor is gone: it starts none any more.
            survivors = processes.end_processes(
                {*_leftovers(root), *(one for one in left if one.is_running())}
            )
            survivors = [one for one in survivors if one.is_running()]
        if survivors:
            names = ", ".join(f"{one.pid}" for one in survivors)
            raise LifecycleError(
                f"Processes {names} did not end. Expected none of {root}; end them with kill -9."
            )
    session_file(root).unlink(missing_ok=True)
    # Without it the command says that no sandbox runs, and not that one does not answer.
    (root / "run" / "cli.toml").unlink(missing_ok=True)
    return len(left)


def program_checks(settings: SandboxSettings) -> dict[str, Callable[[], bool]]:
    """Return a check for each part, by its name for people: whether it is ready. A check waits some seconds at most."""
    token = {"Authorization": f"Bearer {settings.secrets.cluster_token}"}
    return {
        "object store": lambda: object_store.is_ready(settings),
        "router": lambda: _answers(f"{settings.router_admin_url}/ready"),
        "cluster": lambda: _answers(f"{settings.cluster_url}/version", token),
        # Not "ready": it is that no more once any model has failed to load, which here is what it is for.
        "staging Triton": lambda: _answers(f"{settings.staging_url}/v2/health/live"),
        "guard": lambda: _is_recent(settings.guard_alive_file, GUARD_SILENCE_S),
        "Airflow": lambda: _airflow_is_ready(settings),
    }


def _start(settings: SandboxSettings, steps: Steps, dags_folder: Path) -> None:
    with steps.step("State, configuration and database laid out"):
        lay_out(settings)
        airflow.write_home(settings, dags_folder)
    start_supervisor(settings, programs(settings), airflow.airflow_environment(settings))
    supervisor, checks = Supervisor(settings), program_checks(settings)
    deadline = time.monotonic() + UP_LIMIT_S

    def wait(*names: str) -> None:
        steps.wait_for_all(
            {name: checks[name] for name in names},
            UP_STALL_LIMIT_S,
            lambda: _failed_program(settings, supervisor),
            limit_s=deadline - time.monotonic(),
            moves=lambda waiting: _movement(supervisor, waiting),
            last_words=lambda waiting: _last_words(settings, waiting),
        )

    wait("object store", "router")
    supervisor.start("cluster")
    supervisor.start("staging-triton")
    wait("cluster")
    supervisor.start("guard")
    wait("guard", "staging Triton", "Airflow")


def lay_out(settings: SandboxSettings) -> None:
    """Make the run folder again, with what the parts beside Airflow read; the last run's is kept beside it."""
    last = settings.root / "last-run"
    shutil.rmtree(last, ignore_errors=True)
    if settings.run_dir.exists():
        settings.run_dir.rename(last)
    settings.log_dir.mkdir(parents=True)
    settings.root.chmod(0o700)
    settings.save()
    replace_file(settings.cli_file, cli_configuration(settings), private=True)
    replace_file(settings.token_file, settings.secrets.cluster_token + "\n", private=True)
    replace_file(
        cluster_file(settings), json.dumps(cluster_configuration(settings), indent=2) + "\n", private=True
    )


def _failed_program(settings: SandboxSettings, supervisor: Supervisor) -> str | None:
    try:
        failed = next((one for one in supervisor.states() if one.state in FATAL_STATES), None)
    except SupervisorError as error:
        return str(error)
    if failed is None:
        return None
    return (
        f"{failed.name} ended again and again ({failed.description}).{log_end(settings.log_dir, failed.name)}"
    )


def _movement(supervisor: Supervisor, waiting: Iterable[str]) -> object:
    """Return what changes while the programs that are waited for get on; an unknown one does not."""
    names = _programs_of(waiting)
    try:
        return movement(one.pid for one in supervisor.states() if one.pid and one.name in names)
    except SupervisorError:
        return ()


def _last_words(settings: SandboxSettings, waiting: Iterable[str]) -> str:
    return "".join(log_end(settings.log_dir, program) for program in _programs_of(waiting))


def _programs_of(parts: Iterable[str]) -> list[str]:
    return [program for part in parts for program in PARTS[part]]


def _answers(url: str, headers: dict[str, str] | None = None, timeout_s: float = 3.0) -> bool:
    try:
        with urlopen(Request(url, headers=headers or {}), timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError, http.client.HTTPException):
        return False


def _is_recent(path: Path, age_s: float) -> bool:
    """Return whether a file was touched lately."""
    try:
        return time.time() - path.stat().st_mtime < age_s
    except FileNotFoundError:
        return False


def _airflow_is_ready(settings: SandboxSettings) -> bool:
    health = airflow.read_health(settings)
    # The DAG processor counts as healthy before it has read anything.
    return health is not None and health.has_read_all


@contextmanager
def _starting(root: Path) -> Iterator[None]:
    """Let one process at a time start a sandbox."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "starting.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LifecycleError(
                f"The sandbox at {root} is being started by another process. Wait for it, or `make down`."
            ) from None
        yield


def _running(root: Path) -> SandboxSettings | None:
    try:
        settings = SandboxSettings.load(root)
    except SettingsError:
        return None
    if not Supervisor(settings).is_alive():
        return None
    return settings if all(check() for check in program_checks(settings).values()) else None


def _leftovers(root: Path) -> list[psutil.Process]:
    return processes.find_sandbox_processes(root, SessionRecord.load(session_file(root)))


def _end(left: list[psutil.Process]) -> None:
    if survivors := processes.end_processes(left):
        raise LifecycleError(
            f"Processes {', '.join(str(one.pid) for one in survivors)} did not end; end them with kill -9."
        )


def _shut_down_supervisor(root: Path) -> None:
    """Let the supervisor end its programs in good order, if it is there to do it."""
    try:
        Supervisor(SandboxSettings.load(root)).shut_down()
    except (SettingsError, SupervisorError):
        return
    record = SessionRecord.load(session_file(root))
    leader = record.leader() if record else None
    if leader is not None:
        psutil.wait_procs([leader], timeout=SHUT_DOWN_TIMEOUT_S)
