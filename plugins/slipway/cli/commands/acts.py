"""The commands with which a person does something: a verb for each act of the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from slipway.acts.carry_out import Done
from slipway.cli.acting import carry_out
from slipway.cli.arguments import (
    EvidenceOption,
    ModelArgument,
    ReasonOption,
    TimeoutOption,
    VersionArgument,
    WaitOption,
    end_of,
    seconds_of,
)
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format
from slipway.cli.waiting import Deadline, wait_for_release, wait_for_rollback, wait_for_run
from slipway_core.acts.act import Act, Ending, Field
from slipway_core.acts.requests import ActInput
from slipway_core.acts.table import ACTS

_Required = inspect.Parameter.empty
_ARGUMENTS: dict[Field, Any] = {
    "model": ModelArgument,
    "version": VersionArgument,
    "finding": Annotated[
        str, typer.Argument(metavar="FINDING", help="The finding's name, such as 3-published.")
    ],
}
"""What is given by its place where an act requires it."""
_OPTIONS: dict[Field, tuple[Any, Any]] = {
    "reason": (ReasonOption, ""),
    "until": (
        Annotated[
            str,
            typer.Option(
                "--until",
                help="When the freeze ends, such as 4h, 2d or 2026-12-28T08:00Z; at most a year from now.",
            ),
        ],
        "",
    ),
    "model": (
        Annotated[str | None, typer.Option("--model", help="Only this model. Default: every model.")],
        None,
    ),
    "version": (
        Annotated[
            int | None,
            typer.Option("--version", min=1, help="The version to measure. Default: the live version."),
        ],
        None,
    ),
    "evidence": (EvidenceOption, ""),
    "force": (
        Annotated[
            bool, typer.Option("--force", help="Release the version even if users have met it before.")
        ],
        False,
    ),
    "wait_for_approval": (
        Annotated[
            bool,
            typer.Option(
                "--ask", help="Require an approval before the canary, whatever the release file says."
            ),
        ],
        False,
    ),
    "newer": (
        Annotated[
            bool,
            typer.Option(
                "--newer", help="Allow a newer version than the live one; another person must approve."
            ),
        ],
        False,
    ),
    "emergency": (
        Annotated[
            bool,
            typer.Option(
                "--emergency", help="Skip the checks: neither the read model nor staging is asked first."
            ),
        ],
        False,
    ),
}
"""What is given by its name, with what it is where it is left out and the act does not require it."""
_GOES_BACK_TO = Annotated[
    int | None,
    typer.Option("--to", min=1, help="The version to go back to. Default: the version that was live before."),
]


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    for act in ACTS.values():
        command(app, act.verb, act.command.group, examples=act.command.examples)(_verb(act))


def _verb(act: Act) -> Callable[..., None]:
    """Return the command of an act: a function with the parameters that the act's fields ask for."""

    def verb(invocation: Invocation, *, output: Format, **given: Any) -> None:
        _do(invocation, act, output=output, **given)

    parameters = [
        inspect.Parameter("invocation", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Invocation)
    ]
    parameters += _parameters(act)
    verb.__name__, verb.__doc__ = act.name, act.command.help
    verb.__annotations__ = {one.name: one.annotation for one in parameters}
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return verb


def _parameters(act: Act) -> Iterable[inspect.Parameter]:
    def parameter(name: str, kind: Any, default: Any = _Required) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)

    # A question is found by its model.
    required = tuple("model" if field == "question" else field for field in act.required)
    for field, kind in _ARGUMENTS.items():
        if field in required:
            yield parameter(field, kind)
    for field, (kind, default) in _OPTIONS.items():
        if field == "version" and act.offered == "older":
            kind = _GOES_BACK_TO
        if field in required and field not in _ARGUMENTS:
            yield parameter(field, kind)
        elif field in act.optional:
            yield parameter("to" if kind is _GOES_BACK_TO else field, kind, default)
    if act.command.ending:
        yield parameter("wait", WaitOption, act.command.waits)
        yield parameter("timeout", TimeoutOption, act.command.timeout)
    yield parameter("output", OutputOption, Format.TABLE)


def _do(
    invocation: Invocation, act: Act, *, output: Format, wait: bool = False, timeout: str = "0", **given: Any
) -> None:
    """Carry an act out, wait for what it can wait for where that is wanted, and say what comes next."""
    limit, started = seconds_of(timeout), invocation.clock.now()
    if "until" in given:
        given["until"] = end_of(given["until"], started)
    if "to" in given:
        given["version"] = given.pop("to")
    asked = ActInput(**given)
    done = carry_out(invocation, act, asked)
    invocation.printer.say(done.message)
    next_command = act.command.next_command.format(model=asked.model, version=asked.version)
    if wait:
        waited = _Waited(
            invocation, asked, done, started, Deadline.after(invocation.clock.now(), limit), next_command
        )
        if _WAITS[act.command.ending](waited):
            return
    if output is not Format.TABLE:
        invocation.printer.show(
            {"act": act.name, "dag_id": done.dag_id, "run_id": done.run_id, "message": done.message}
        )
    elif not wait:
        invocation.printer.say(f"Next: {next_command}")


@dataclass(frozen=True)
class _Waited:
    """An act whose end is waited for.

    :param started: when it was asked for.
    """

    invocation: Invocation
    asked: ActInput
    done: Done
    started: datetime
    deadline: Deadline
    next_command: str


def _wait_for_run(act: _Waited) -> bool:
    run = (act.done.dag_id, act.done.run_id)
    wait_for_run(act.invocation, *run, act.deadline, act.next_command, asked=act.asked.reason)
    return False


def _wait_for_release(act: _Waited) -> bool:
    """Wait for the release's end, which is all that is shown."""
    from slipway.cli.commands.status import end_with

    model = act.asked.model or ""
    end_with(
        act.invocation,
        wait_for_release(act.invocation, model, act.deadline, release_id=act.done.run_id),
        model,
    )
    return True


def _wait_for_rollback(act: _Waited) -> bool:
    model, reason = act.asked.model or "", act.asked.reason
    wait_for_rollback(act.invocation, model, act.done.run_id, act.started, act.deadline, asked=reason)
    return False


def _wait_for_abort(act: _Waited) -> bool:
    line = wait_for_release(act.invocation, act.asked.model or "", act.deadline, release_id=act.done.run_id)
    act.invocation.printer.say(
        "" if line is None else f"version {line.version}: {line.outcome}. {line.reason}"
    )
    return False


_WAITS: dict[Ending, Callable[[_Waited], bool]] = {
    "run": _wait_for_run,
    "release": _wait_for_release,
    "rollback": _wait_for_rollback,
    "abort": _wait_for_abort,
}
"""What is waited for; each returns whether it has shown all that there is to show."""
