"""`python -m slipway_sandbox demo`: a fresh sandbox, the whole story, a report, an exit code that says how it went."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from slipway_core.errors import SlipwayError
from slipway_sandbox import lifecycle
from slipway_sandbox.demo.airflow_client import AirflowClient
from slipway_sandbox.demo.chapters import CHAPTERS, MODEL, problems
from slipway_sandbox.demo.narrator import Narrator
from slipway_sandbox.demo.records import Records
from slipway_sandbox.demo.story import Story
from slipway_sandbox.demo.summary import print_summary, report, write_report
from slipway_sandbox.demo.traffic import TrafficClient
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import SandboxSettings, SettingsError, sandbox_root
from slipway_sandbox.host.supervise import Supervisor
from slipway_sandbox.services.airflow import AirflowError
from slipway_sandbox.services.object_store import client

RATE_RPS = 50.0
OTHERWISE = 1
INTERRUPTED = 130

_KNOWN_ERRORS = (SlipwayError, lifecycle.LifecycleError, SettingsError, AirflowError)


def main(argv: Sequence[str] | None = None) -> int:
    """Tell the story. Returns 0 when it went as it should, 1 when not, 130 when it was interrupted.

    Whatever happens, the clients end, and so does the sandbox, unless it was up before or `--keep-up` is given.
    """
    arguments = _arguments(argv)
    console = Console(highlight=False)
    try:
        with termination_interrupts():
            return _demo(console, time.monotonic(), arguments.rate_rps, keep_running=arguments.keep_running)
    except KeyboardInterrupt:
        console.print("Interrupted; the clients have ended.")
        return INTERRUPTED
    except _KNOWN_ERRORS as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        return OTHERWISE


def _demo(console: Console, began: float, rate_rps: float, *, keep_running: bool) -> int:
    root = sandbox_root()
    with _sandbox(root, console, keep_running=keep_running) as settings:
        s3 = client(settings, "s3")
        _require_fresh(Records(s3, settings.bucket))
        traffic = TrafficClient(
            port=settings.ports.ingress,
            authority=settings.service_host(MODEL),
            model=MODEL,
            rate_rps=rate_rps,
            output=root / "demo" / "traffic.jsonl",
            sandbox_root=root,
        )
        airflow = AirflowClient(settings.airflow_url, settings.airflow_user, settings.airflow_password)
        found = []
        _print_address(console, settings)
        with traffic, Narrator(console) as narrator:
            story = Story(airflow, s3, settings.bucket, traffic, narrator)
            try:
                story.tell()
            except SlipwayError as error:
                found.append(str(error))  # what happened until then is reported all the same
        counted = traffic.traffic()
        document = report(time.monotonic() - began, story.results, counted)
        report_path = root / "demo" / "report.json"
        write_report(report_path, document)
        print_summary(console, document, counted, report_path)
        found += problems(story.results, counted)
        _print_ending(console, found, settings, keep_running=keep_running)
        return OTHERWISE if found else 0


def _print_ending(
    console: Console, found: Sequence[str], settings: SandboxSettings, *, keep_running: bool
) -> None:
    if found:
        console.print("[red]The story did not go as it should:[/]")
        for problem in found:
            console.print(f"  - {escape(problem)}", soft_wrap=True)
        console.print(f"Logs: {settings.log_dir}", soft_wrap=True)
    if keep_running:
        _print_address(console, settings)
    else:
        console.print(
            f"The dashboard was at {settings.dashboard_url}; it stays open after `make demo ARGS=--keep-up`.",
            soft_wrap=True,
        )


def _print_address(console: Console, settings: SandboxSettings) -> None:
    password = settings.airflow_home / "passwords.json"
    console.print(
        f"Dashboard: {settings.dashboard_url} (user {settings.airflow_user}, password in {password})",
        soft_wrap=True,
    )


@contextmanager
def _sandbox(root: Path, console: Console, *, keep_running: bool) -> Iterator[SandboxSettings]:
    """Give a sandbox that is up; ended afterwards if it was started here."""
    was_up = _is_up(root)
    settings = lifecycle.up(root, Steps(console))
    try:
        yield settings
    finally:
        if not (was_up or keep_running):
            lifecycle.down(root, Steps(console))


def _is_up(root: Path) -> bool:
    try:
        return Supervisor(SandboxSettings.load(root)).is_alive()
    except SettingsError:
        return False


def _require_fresh(records: Records) -> None:
    """Raise SlipwayError where versions of the story have been released in this sandbox before."""
    released = [chapter.version for chapter in CHAPTERS if records.events(MODEL, chapter.version)]
    if released:
        raise SlipwayError(
            "the demo already ran in this sandbox",
            expected=f"no release of {MODEL} yet",
            found=f"records of version {', '.join(map(str, released))}",
            remedy="Run `make down`, then `make demo` again: a new sandbox starts empty.",
        )


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does while the `with` lasts, so that everything is ended."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m slipway_sandbox demo", description=__doc__)
    parser.add_argument(
        "--rate-rps", type=float, default=RATE_RPS, help="requests a second that clients send"
    )
    parser.add_argument(
        "--keep-up",
        dest="keep_running",
        action="store_true",
        help="leave the sandbox up, to look around in it",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
