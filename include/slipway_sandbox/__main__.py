"""The sandbox from the command line.

`python -m slipway_sandbox setup | up | down | status | demo | traffic | doctor`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from slipway_sandbox import lifecycle
from slipway_sandbox.host.child_process import program_path
from slipway_sandbox.host.images import IMAGES_VARIABLE
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import MARKER, SandboxSettings, SettingsError, sandbox_root
from slipway_sandbox.host.supervise import Supervisor, SupervisorError
from slipway_sandbox.lifecycle import LifecycleError
from slipway_sandbox.services.airflow import AirflowError, airflow_environment, read_health

INTERRUPTED = 130
# These read their own arguments.
_WITH_ARGUMENTS = ("demo", "traffic", "doctor")


def _setup(options: argparse.Namespace, _rest: Sequence[str]) -> int:
    from slipway_core.errors import SlipwayError
    from slipway_sandbox.host.images import ImageError, images_dir
    from slipway_sandbox.setup import set_up

    try:
        set_up(images_dir(), Steps(), for_tests=options.for_tests)
    except (ImageError, SlipwayError) as error:
        raise LifecycleError(str(error)) from error
    return 0


def _up(_options: argparse.Namespace, _rest: Sequence[str]) -> int:
    settings, console = lifecycle.up(), Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_row("dashboard", f"[bold]{settings.dashboard_url}[/]")
    table.add_row("Airflow", settings.airflow_url)
    table.add_row("log in as", f"{settings.airflow_user} / {settings.airflow_password}")
    table.add_row(
        "models", f"{settings.ingress_url}  (Host: {settings.service_host('MODEL')}; HTTP and gRPC)"
    )
    table.add_row("S3", f"{settings.object_store_url}  (bucket {settings.bucket})")
    table.add_row("cluster", f"KUBECONFIG={settings.kubeconfig}")
    table.add_row("logs", str(settings.log_dir))
    table.add_row("command", f"{_command()} list  (in this folder it needs no login)")
    console.print(table)
    console.print("End it with [bold]make down[/].")
    return 0


def _command() -> str:
    """Return how the command `slipway` is called here."""
    program = Path(program_path("slipway"))
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)


def _down(_options: argparse.Namespace, _rest: Sequence[str]) -> int:
    ended = lifecycle.down()
    print(f"The sandbox is down; {ended} processes were ended." if ended else "The sandbox was not running.")
    return 0


def _status(_options: argparse.Namespace, _rest: Sequence[str]) -> int:
    """Return 0 when all is healthy, 3 when not (as `systemctl status` does)."""
    try:
        settings = SandboxSettings.load()
        states = Supervisor(settings).states()
    except (SettingsError, SupervisorError):
        print("The sandbox is not running; start it with `make up`.")
        return 3
    table = Table.grid(padding=(0, 2))
    for one in states:
        table.add_row(one.name, one.state.lower(), one.description)
    healthy = True
    for name, check in lifecycle.program_checks(settings).items():
        ready = check()
        healthy = healthy and ready
        table.add_row(
            name, "[green]healthy[/]" if ready else "[red]not healthy[/]", _why(settings, name, ready)
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(f"Dashboard: {settings.dashboard_url}")
    console.print(f"Airflow: {settings.airflow_url} ({settings.airflow_user} / {settings.airflow_password})")
    return 0 if healthy else 3


def _why(settings: SandboxSettings, name: str, ready: bool) -> str:
    if name != "Airflow":
        return ""
    health = read_health(settings)
    if health is None:
        return "" if ready else "its API does not answer"
    if health.unhealthy:
        return f"not alive: {', '.join(health.unhealthy)}"
    return f"{health.dags} DAGs, {health.import_errors} files that could not be imported"


def _demo(_options: argparse.Namespace, rest: Sequence[str]) -> int:
    # What the demo starts is the sandbox's too: `down` ends it, whatever becomes of this process.
    os.environ[MARKER] = str(sandbox_root())
    code: int = import_module("slipway_sandbox.demo.main").main(list(rest))
    return code


def _traffic(_options: argparse.Namespace, rest: Sequence[str]) -> int:
    # A `down` ends the clients as well.
    os.environ[MARKER] = str(sandbox_root())
    code: int = import_module("slipway_sandbox.demo.steady_traffic").main(list(rest))
    return code


def _doctor(_options: argparse.Namespace, rest: Sequence[str]) -> int:
    """Examine the sandbox as an installation is examined, with the connections of its workers."""
    environment = airflow_environment(SandboxSettings.load())
    return subprocess.run([program_path("slipway"), "doctor", *rest], env=environment, check=False).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slipway_sandbox",
        description="Slipway's sandbox: all of it on this machine, on 127.0.0.1.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace, Sequence[str]], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, add_help=name not in _WITH_ARGUMENTS)
        command.set_defaults(run=run)
        return command

    setup = add(
        "setup",
        _setup,
        f"Build what is missing: pod environments (in .sandbox, or {IMAGES_VARIABLE}), Triton, database.",
    )
    setup.add_argument("--for-tests", action="store_true", help="also what only the tests need")
    add("up", _up, "Start the sandbox and Airflow, empty at first; say how to log in.")
    add("down", _down, "End all of it, also what an interrupted or killed run has left.")
    add("status", _status, "Show what runs, and whether it is healthy (exit code 3 when not).")
    add("demo", _demo, "Run the whole demo: four releases under live traffic. See `demo --help`.")
    add("doctor", _doctor, "Examine it as an installation is examined. See `doctor --help`.")
    add("traffic", _traffic, "Send requests to a sample model until Ctrl-C. See `traffic --help`.")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code: 0 ok, 1 failed (with the reason on stderr), 130 interrupted."""
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.command not in _WITH_ARGUMENTS:
        _parser().error(f"unknown arguments: {' '.join(rest)}")
    try:
        code: int = options.run(options, rest)
        return code
    except (LifecycleError, SettingsError, SupervisorError, AirflowError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. `make down` ends what still runs.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
