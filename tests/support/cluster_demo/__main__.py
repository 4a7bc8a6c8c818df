"""`make cluster-demo`: build what is missing, start the cluster, play the story, say what was measured, end it all."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from slipway_core.errors import SlipwayError
from slipway_sandbox.demo.main import INTERRUPTED, OTHERWISE, termination_interrupts
from slipway_sandbox.demo.summary import print_summary, write_report
from slipway_sandbox.host.images import ImageError, build_image
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.cluster_demo.cluster import build_all, served_by
from tests.support.cluster_demo.counting import PROGRAM as PROMETHEUS
from tests.support.cluster_demo.images import POD_PROGRAMS
from tests.support.cluster_demo.running import RunningDemo, running_demo
from tests.support.cluster_demo.story import Played, play
from tests.support.conformance.build import BuildError
from tests.support.conformance.processes import NotReadyError
from tests.support.containers.engine import NoEngineError
from tests.support.containers.node.node_cluster import versions
from tests.support.containers.node.runtime_programs import RuntimePrograms

FOLDER = PROJECT_ROOT / ".sandbox" / "cluster-demo"
RATE_RPS = 20.0
_KNOWN_ERRORS = (SlipwayError, BuildError, ImageError, NoEngineError, NotReadyError, TimeoutError)


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when the story went as it should, 1 when not, 130 when it was interrupted; everything has ended then."""
    arguments = _arguments(argv)
    console = Console(highlight=False)
    try:
        with termination_interrupts():
            return _run(console, arguments.rate_rps, keep_up=arguments.keep_up)
    except KeyboardInterrupt:
        console.print("Interrupted; everything has ended.")
        return INTERRUPTED
    except _KNOWN_ERRORS as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        return OTHERWISE


def prepare(console: Console, steps: Steps) -> RuntimePrograms:
    """Build what is missing and say what the cluster is made of; return what runs its containers.

    :raises NoEngineError: this machine lacks something that is not built here.
    :raises BuildError: something cannot be built.
    """
    if shutil.which(PROMETHEUS) is None:
        raise NoEngineError(f"No {PROMETHEUS} on PATH. On Debian: apt-get install {PROMETHEUS}")
    programs = build_all(FOLDER, steps)
    with steps.step("The pods' environments and Triton are there"):
        for name in (*POD_PROGRAMS, "triton"):
            build_image(name)
        TritonInstall.prepare()
    console.print(f"{versions(programs)}, {served_by()}", highlight=False, soft_wrap=True)
    if not programs.has_seccomp:
        console.print("runc is built without libseccomp: no filter of system calls is applied.")
    return programs


def _run(console: Console, rate_rps: float, *, keep_up: bool) -> int:
    began_s, steps = time.monotonic(), Steps(console)
    programs = prepare(console, steps)
    with running_demo(FOLDER, programs, steps) as running:
        console.print(f"The cluster is up after {time.monotonic() - began_s:.0f} s.")
        _print_addresses(console, running)
        with running.clients(rate_rps, FOLDER / "traffic.jsonl") as clients:
            played = play(running, clients, console)
            _print_played(console, played, time.monotonic() - began_s)
            if keep_up:
                console.print("It stays up until Ctrl-C.")
                _print_addresses(console, running)
                signal.pause()
    return OTHERWISE if played.problems else 0


def _print_played(console: Console, played: Played, wall_s: float) -> None:
    document, path = played.document(wall_s), FOLDER / "report.json"
    write_report(path, document)
    print_summary(console, document, played.traffic, path)
    if (guarded := played.guarded) is not None:
        console.print(
            f"Airflow was killed with the candidate at {guarded.weight} %: {guarded.patched_s:.0f} s later the guard's "
            f"pod {guarded.job} had taken it to 0 %, and its last answer came after {guarded.safe_s:.0f} s.",
            soft_wrap=True,
        )
    if played.problems:
        console.print("[red]The story did not go as it should:[/]")
        for problem in played.problems:
            console.print(f"  - {escape(problem)}", soft_wrap=True)


def _print_addresses(console: Console, running: RunningDemo) -> None:
    settings = running.settings
    password = settings.airflow_home / "passwords.json"
    admin = running.cluster.node.plane.folder / "admin.kubeconfig"
    for line in (
        f"Dashboard: {settings.dashboard_url} (user {settings.airflow_user}, password in {password})",
        f"Gateway:   {settings.ingress_url}, Host: {running.host}",
        f"Cluster:   kubectl --kubeconfig {admin} get pods -A",
    ):
        console.print(line, soft_wrap=True)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make cluster-demo ARGS=…", description=__doc__)
    parser.add_argument(
        "--rate-rps", type=float, default=RATE_RPS, help="requests a second that clients send"
    )
    parser.add_argument(
        "--keep-up", action="store_true", help="leave it up until Ctrl-C, to look around in it"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
