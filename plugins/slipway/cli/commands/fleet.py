"""What the servers of a fleet serve."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from slipway.cli.failures import CommandError
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format, as_json, table_of

PANEL = "Look"
_DIGEST_SHOWN = 12


class Question(StrEnum):
    """What is asked of a fleet."""

    STATUS = "status"


def add_to(app: typer.Typer) -> None:
    """Declare the command."""
    command(
        app,
        "fleet",
        PANEL,
        examples=("slipway fleet status edge", "slipway fleet status edge -o json | jq .differences"),
    )(fleet)


def fleet(
    invocation: Invocation,
    question: Annotated[Question, typer.Argument(help="`status`: what each server serves.")],
    name: Annotated[str, typer.Argument(metavar="FLEET", help="The fleet's name.")],
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what each server of a fleet serves now: version, configuration and manifest, and whether they agree.

    Exit code: 0 they agree; 1 they differ, or a server does not answer.
    """
    found = invocation.server.fleet(name)
    if output is not Format.TABLE:
        invocation.printer.show({**as_json(found), "agree": found.agree})
    else:
        head = "no version" if found.version is None else f"version {found.version}"
        invocation.printer.say(f"{found.fleet}: {head} of {found.model}")
        if found.open_release:
            invocation.printer.say(f"A release is under way, or was left unfinished: {found.open_release}")
        rows = [
            [
                one.server,
                "none" if one.version is None else one.version,
                one.config_sha256[:_DIGEST_SHOWN],
                one.manifest_sha256[:_DIGEST_SHOWN],
                {True: "yes", False: "no", None: ""}[one.is_ready],
                one.problem,
            ]
            for one in found.servers
        ]
        columns = ("SERVER", "VERSION", "CONFIG", "MANIFEST", "READY", "PROBLEM")
        invocation.printer.show(as_json(found), table_of(columns, rows, right=("VERSION",)))
        for one in found.leftovers:
            invocation.printer.say(f"Not needed: {one}")
    if not found.agree:
        raise CommandError(
            f"the servers of {name} differ",
            expected="one version, configuration and manifest on all",
            found="; ".join(found.differences),
            remedy=f"release the fleet's version again with the DAG `fleet_release` (fleet {name})",
        )
