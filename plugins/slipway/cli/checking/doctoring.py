"""An installation examined from here, with the connections that this process has."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import slipway_core
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.words import span
from slipway.deployment.settings import folder_of, text_of
from slipway_core.doctor.report import OLD_AFTER

if TYPE_CHECKING:
    from slipway.cli.invocation import Invocation
    from slipway.doctor.installation import Permission
    from slipway_core.doctor.line import Line
    from slipway_core.doctor.report import DoctorReport

_ERRORS_ONLY = 40


@contextmanager
def airflow_at_hand() -> Iterator[None]:
    """Make Airflow's hooks usable in this process, quietly, with a home of their own where it has none.

    :raises CommandError: Airflow's libraries are not installed here.
    """
    with tempfile.TemporaryDirectory(prefix="slipway-") as home:
        os.environ.setdefault("AIRFLOW_HOME", home)
        try:
            import structlog

            import slipway.doctor.examining  # noqa: F401 - whether it can be imported
        except ImportError as error:
            raise CommandError(
                "doctor needs Airflow's libraries, which are not installed here",
                code=ExitCode.USAGE,
                expected="an environment in which Airflow's tasks run, with its connections",
                found=str(error),
                remedy="run it in a worker: kubectl exec deploy/airflow-worker -- slipway doctor; or see the last "
                "report: slipway doctor --last",
            ) from None
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_ERRORS_ONLY))
        logging.getLogger("botocore").setLevel(logging.ERROR)
        yield


def permissions(**asked: bool) -> frozenset[Permission]:
    """Return what the options of the command permit, by their names."""
    from slipway.doctor.installation import Permission

    return frozenset(Permission(name) for name, is_asked in asked.items() if is_asked)


def examine_here(
    only: tuple[str, ...],
    permitted: frozenset[Permission],
    bucket: str,
    releases: Path | None,
    show: Callable[[Line], None],
) -> DoctorReport:
    """Examine the installation whose connections this process has.

    :param only: the names of examinations; () for all.
    :param bucket: "": that of Airflow's variable.
    :param releases: the folder of release files; None: that of the environment.
    :param show: is given each line as soon as it is known.
    """
    from airflow.sdk import Variable

    from slipway.doctor.examination import chosen_examinations
    from slipway.doctor.examining import examine
    from slipway.doctor.installation import Installation

    examinations = chosen_examinations(only)
    folder = releases or folder_of(
        "SLIPWAY_RELEASES_DIR", Path(slipway_core.__file__).parents[1] / "releases"
    )
    name = bucket or text_of("SLIPWAY_BUCKET") or str(Variable.get("slipway_bucket", default=""))
    installation = Installation(name, folder, text_of("SLIPWAY_INTAKE_QUEUE_URL"), permitted)
    return examine(installation, examinations, show, where=f"a command on {socket.gethostname()}")


def last_report(invocation: Invocation, only: frozenset[str]) -> DoctorReport:
    """Return what the daily examination found last, and print its lines with its age.

    :param only: the names of examinations; empty for all.
    """
    found = invocation.server.examined()
    report = found.model_copy(
        update={"lines": tuple(line for line in found.lines if not only or line.examination in only)}
    )
    for line in report.lines:
        invocation.printer.say(line.as_text())
    age = invocation.clock.now() - report.ended_at
    examined = f"examined {span(age.total_seconds())} ago by {report.where}"
    if age > OLD_AFTER:
        invocation.warn(f"{examined}: it should be every day, so see whether its DAG is paused")
    else:
        invocation.printer.say(examined)
    return report
