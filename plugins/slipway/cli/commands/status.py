"""How a release has ended, for scripts; and its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipway.cli.arguments import ModelArgument, TimeoutOption, seconds_of
from slipway.cli.failures import CommandError
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format, as_json
from slipway.cli.unrecorded import runs_waiting, waiting_words
from slipway.cli.waiting import Deadline, is_good, wait_for_release
from slipway.cli.words import in_flight

if TYPE_CHECKING:
    from slipway_core.read_model.documents import VersionLine

PANEL = "Look"


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    command(
        app,
        "status",
        PANEL,
        examples=(
            "slipway status digits --timeout 30m && echo promoted",
            "slipway status digits --version 3 --no-wait -o json",
        ),
    )(status)


def status(
    invocation: Invocation,
    model: ModelArgument,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="The newest release of this version.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the release is over.")] = True,
    timeout: TimeoutOption = "0",
    output: OutputOption = Format.TABLE,
) -> None:
    """Wait until the current release is over, and say how it ended. If none is under way, say how the last one ended.

    Exit code: 0 promoted; 1 refused, rolled back, failed or stopped; 5 not finished in time. With --no-wait a release
    that is under way is 0, too.
    """
    if not wait:
        document = invocation.server.model_or_empty(model, invocation.clock.now())
        release = document.open_release
        if release is not None and version in (None, release.version):
            invocation.printer.show(
                {"model": model, "outcome": "open", "release": as_json(release)}, in_flight(release)
            )
            return
        waits = runs_waiting(invocation.server, document, version)
        if waits:
            invocation.printer.show(
                {"model": model, "outcome": "open", "waiting": [as_json(one) for one in waits]},
                waiting_words(waits, invocation.clock.now()),
            )
            return
    line = wait_for_release(
        invocation, model, Deadline.after(invocation.clock.now(), seconds_of(timeout)), version=version
    )
    end_with(invocation, line, model)


def end_with(invocation: Invocation, line: VersionLine | None, model: str) -> None:
    """Show how a release ended.

    :raises CommandError: not as who started it wished, or there was none.
    """
    if line is None:
        raise CommandError(
            f"no version of {model} has been released", remedy=f"slipway release {model} VERSION"
        )
    sentence = f"{model} version {line.version}: {line.outcome.replace('_', ' ')}"
    if invocation.printer.format is not Format.TABLE:
        invocation.printer.show(_outcome(line))
    elif is_good(line):
        invocation.printer.say(sentence)
    if not is_good(line):
        raise CommandError(
            sentence,
            expected="promoted",
            found=line.reason or line.outcome,
            remedy=f"slipway explain {model} {line.version}",
        )


def _outcome(line: VersionLine) -> dict[str, Any]:
    return {"model": line.model, "outcome": line.outcome, "release": as_json(line)}
