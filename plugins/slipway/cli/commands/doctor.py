"""The command that examines an installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format
from slipway_core.doctor.report import DoctorCode, summary


def add_to(app: typer.Typer) -> None:
    """Declare the command."""
    command(
        app,
        "doctor",
        "Begin and check",
        asks_airflow=False,
        examples=(
            "slipway doctor",
            "slipway doctor --only rights --only bucket",
            "slipway doctor --write -o json",
            "slipway doctor --last",
        ),
    )(doctor)


def doctor(
    invocation: Invocation,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only this examination; may be given more than once."),
    ] = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Also write objects below operations/store-probe/, which are removed again."
        ),
    ] = False,
    event: Annotated[
        bool,
        typer.Option(
            "--event", help="Also upload an object that starts nothing, and look for its event in the queue."
        ),
    ] = False,
    plant: Annotated[
        bool,
        typer.Option(
            "--plant",
            help="Also deploy a model of doctor's own, whose errors and hangs must be counted; it is removed again.",
        ),
    ] = False,
    last: Annotated[
        bool,
        typer.Option("--last", help="Examine nothing: show what Airflow's daily examination found last."),
    ] = False,
    bucket: Annotated[
        str, typer.Option("--bucket", help="The bucket, if Airflow's variable slipway_bucket names none.")
    ] = "",
    releases: Annotated[
        Path | None, typer.Option("--releases", help="The release files. Default: SLIPWAY_RELEASES_DIR.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Examine an installation: say of each thing that a release needs whether it is well, and what mends it.

    It looks with the connections and the rights of the process in which it runs: run it in a worker. It only reads,
    unless an option permits more. What hangs is given up, and the rest goes on; what could not be looked at is
    UNKNOWN, which is not ok. With --last it shows, from anywhere, what Airflow's daily examination found.

    Exit code: 0 nothing is wrong; 1 something is; 2 something could not be examined.
    """
    from slipway.cli.checking.doctoring import airflow_at_hand, examine_here, last_report, permissions

    if last:
        report = last_report(invocation, frozenset(only or ()))
    else:
        with airflow_at_hand():
            report = examine_here(
                tuple(only or ()),
                permissions(write=write, event=event, plant=plant),
                bucket,
                releases,
                lambda line: invocation.printer.say(line.as_text()),
            )
    if output is not Format.TABLE:
        invocation.printer.show({**report.model_dump(mode="json"), "exit_code": int(report.code)})
    invocation.printer.say(summary(report.lines))
    if report.code is not DoctorCode.OK:
        raise typer.Exit(int(report.code))
