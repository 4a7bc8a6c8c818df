"""The commands with which a person does something."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipway.cli.acting import Done, carry_out
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
from slipway.cli.desk import Desk, OutputOption, command
from slipway.cli.output import Format
from slipway.cli.waiting import Deadline, wait_for_release, wait_for_rollback, wait_for_run
from slipway_core.acts.requests import Asked
from slipway_core.acts.table import ActName

ACT, GUARD = "Act", "Hold and keep"
OptionalModel = Annotated[
    str | None, typer.Option("--model", help="Of one model alone; without it, of every one.")
]


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    command(
        app,
        "release",
        ACT,
        examples=(
            "slipway release digits 3",
            "slipway release digits 3 --wait --timeout 1h && ./tell-the-team",
        ),
    )(release)
    command(
        app,
        "rollback",
        ACT,
        examples=(
            'slipway rollback digits --reason "wrong labels"',
            'slipway rollback digits --to 2 -m "slow answers"',
        ),
    )(rollback)
    command(app, "pause", ACT, examples=('slipway pause digits --reason "looking at the errors"',))(pause)
    command(app, "resume", ACT, examples=("slipway resume digits",))(resume)
    command(app, "approve", ACT, examples=('slipway approve digits --reason "seen the report"',))(approve)
    command(app, "decline", ACT, examples=('slipway decline digits --reason "accuracy of class 7"',))(decline)
    command(app, "abort", ACT, examples=('slipway abort digits --reason "wrong data set"',))(abort)
    command(app, "reject", GUARD, examples=('slipway reject digits 3 --reason "trained on test data"',))(
        reject
    )
    command(
        app,
        "unreject",
        GUARD,
        examples=('slipway unreject digits 3 --reason "it was the benchmark\'s fault"',),
    )(unreject)
    command(
        app,
        "freeze",
        GUARD,
        examples=(
            'slipway freeze --until 4h --reason "incident 12"',
            'slipway freeze --model digits --until 2026-12-28T08:00Z -m "holidays"',
        ),
    )(freeze)
    command(app, "thaw", GUARD, examples=('slipway thaw --reason "incident 12 is over"',))(thaw)
    command(app, "override", GUARD, examples=('slipway override digits 3 --reason "fixes incident 12"',))(
        override
    )
    command(app, "pin", GUARD, examples=('slipway pin digits 3 --reason "the audit\'s reference"',))(pin)
    command(
        app, "close-finding", GUARD, examples=('slipway close-finding digits 3-latency -m "new hardware"',)
    )(close_finding)
    command(app, "unpin", GUARD, examples=('slipway unpin digits 3 --reason "audit is over"',))(unpin)
    command(
        app, "tune", GUARD, examples=("slipway tune digits 3", "slipway tune digits 3 --wait --timeout 1h")
    )(tune)


def release(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    reason: ReasonOption = "",
    force: Annotated[
        bool, typer.Option("--force", help="Release a version again that users have met before.")
    ] = False,
    wait_for_approval: Annotated[
        bool, typer.Option("--ask", help="Ask a person before the canary, whatever the release file says.")
    ] = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = "0",
    output: OutputOption = Format.TABLE,
) -> None:
    """Start a release: every gate on staging, then the canary on live traffic. With --wait, say how it ended.

    Exit code with --wait: 0 promoted; 1 refused, rolled back, failed or stopped; 5 not over in time.
    """
    from slipway.cli.commands.status import end_with

    limit = seconds_of(timeout)
    done = _act(
        desk,
        "release",
        model=model,
        version=version,
        reason=reason,
        force=force,
        wait_for_approval=wait_for_approval,
    )
    if not wait:
        _show(desk, "release", done, f"Next: slipway get {model} -w")
        return
    line = wait_for_release(desk, model, Deadline.after(desk.clock.now(), limit), release_id=done.run_id)
    end_with(desk, line, model)


def rollback(
    desk: Desk,
    model: ModelArgument,
    reason: ReasonOption,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="The version to go back to; else the one before.")
    ] = None,
    newer: Annotated[
        bool, typer.Option("--newer", help="That version may be newer; another person approves it.")
    ] = False,
    emergency: Annotated[
        bool, typer.Option("--emergency", help="Ask nothing first: neither the read model nor staging.")
    ] = False,
    wait: WaitOption = True,
    timeout: TimeoutOption = "30m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Take all users back: off the canary where one is under way, else to the version that was live before.

    It waits until 0 % is observed, which it says, and then for the end; --no-wait returns at once.
    """
    limit, started = seconds_of(timeout), desk.clock.now()
    done = _act(desk, "rollback", model=model, version=to, reason=reason, newer=newer, emergency=emergency)
    if wait:
        wait_for_rollback(desk, model, done.run_id, started, Deadline.after(started, limit), asked=reason)
    _show(desk, "rollback", done, "" if wait else f"Next: slipway get {model} -w")


def pause(
    desk: Desk,
    model: ModelArgument,
    reason: ReasonOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Keep the candidate at its weight. The judge goes on watching, and may still take it back."""
    _short(desk, "pause", model, wait, timeout, f"slipway get {model}", reason=reason)


def resume(
    desk: Desk,
    model: ModelArgument,
    reason: ReasonOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """End a pause: the release raises its next weight as soon as nothing else holds it."""
    _short(desk, "resume", model, wait, timeout, f"slipway get {model} -w", reason=reason)


def approve(
    desk: Desk, model: ModelArgument, reason: ReasonOption = "", output: OutputOption = Format.TABLE
) -> None:
    """Agree, under your name, to what the model's release waits for."""
    done = _act(desk, "approve", model=model, reason=reason)
    _show(desk, "approve", done, f"Next: slipway get {model} -w")


def decline(
    desk: Desk, model: ModelArgument, reason: ReasonOption, output: OutputOption = Format.TABLE
) -> None:
    """Say no to what the model's release waits for: the version is taken back where users met it, and rejected."""
    done = _act(desk, "decline", model=model, reason=reason)
    _show(desk, "decline", done, f"Next: slipway get {model}")


def abort(
    desk: Desk,
    model: ModelArgument,
    reason: ReasonOption,
    wait: WaitOption = False,
    timeout: TimeoutOption = "30m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Stop the release under way. Users go back to the stable version; the version is not rejected."""
    limit = seconds_of(timeout)
    done = _act(desk, "abort", model=model, reason=reason)
    if wait:
        line = wait_for_release(desk, model, Deadline.after(desk.clock.now(), limit), release_id=done.run_id)
        desk.printer.say("" if line is None else f"version {line.version}: {line.outcome}. {line.reason}")
    _show(desk, "abort", done, "" if wait else f"Next: slipway get {model} -w")


def reject(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    reason: ReasonOption,
    evidence: EvidenceOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Keep a version from being released. What is live stays live: `slipway rollback` brings users back."""
    look = f"slipway explain {model} {version}"
    _short(desk, "reject", model, wait, timeout, look, version=version, reason=reason, evidence=evidence)


def unreject(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    reason: ReasonOption,
    evidence: EvidenceOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Lift a version's rejection. The release file may ask for another person than the one who rejected it."""
    look = f"slipway explain {model} {version}"
    _short(desk, "unreject", model, wait, timeout, look, version=version, reason=reason, evidence=evidence)


def freeze(
    desk: Desk,
    reason: ReasonOption,
    until: Annotated[
        str, typer.Option("--until", help="When it ends: 4h, 2d, or 2026-12-28T08:00Z; a year at most.")
    ],
    model: OptionalModel = None,
    evidence: EvidenceOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Hold back every start and every raise until a moment. No rollback is held back."""
    end = end_of(until, desk.clock.now())
    _short(desk, "freeze", model, wait, timeout, "slipway list", reason=reason, until=end, evidence=evidence)


def thaw(
    desk: Desk,
    reason: ReasonOption,
    model: OptionalModel = None,
    evidence: EvidenceOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Lift the freezes of a model before their end; without --model, those of every model."""
    _short(desk, "thaw", model, wait, timeout, "slipway list", reason=reason, evidence=evidence)


def override(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    reason: ReasonOption,
    evidence: EvidenceOption = "",
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Let one version go on past the freezes and the closed window of this moment; another person than their author."""
    look = f"slipway get {model} -w"
    _short(desk, "override", model, wait, timeout, look, version=version, reason=reason, evidence=evidence)


def pin(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    reason: ReasonOption,
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Keep a version's files, whatever the retention says."""
    _short(desk, "pin", model, wait, timeout, f"slipway get {model}", version=version, reason=reason)


def unpin(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    reason: ReasonOption,
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Let the retention delete a version's files again."""
    _short(desk, "unpin", model, wait, timeout, f"slipway get {model}", version=version, reason=reason)


def close_finding(
    desk: Desk,
    model: ModelArgument,
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="Its name, such as 3-published.")],
    reason: ReasonOption,
    wait: WaitOption = True,
    timeout: TimeoutOption = "5m",
    output: OutputOption = Format.TABLE,
) -> None:
    """Close a finding about what is live, under your name, until something else is seen."""
    _short(
        desk, "close_finding", model, wait, timeout, f"slipway get {model}", finding=finding, reason=reason
    )


def tune(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    wait: WaitOption = False,
    timeout: TimeoutOption = "1h",
    output: OutputOption = Format.TABLE,
) -> None:
    """Look for a faster setting of a published version on staging; it proposes a change of the release file."""
    _short(desk, "tune", model, wait, timeout, f"slipway get {model}", version=version)


def _short(
    desk: Desk, name: ActName, model: str | None, wait: bool, timeout: str, next_command: str, **asked: Any
) -> None:
    """Do what a workflow of one short task does, and wait for it where that is wanted."""
    limit = seconds_of(timeout)
    done = _act(desk, name, model=model, **asked)
    if wait:
        deadline, reason = Deadline.after(desk.clock.now(), limit), str(asked.get("reason", ""))
        wait_for_run(desk, done.dag_id, done.run_id, deadline, next_command, asked=reason)
    _show(desk, name, done, "" if wait else f"Next: {next_command}")


def _act(desk: Desk, name: ActName, **asked: Any) -> Done:
    done = carry_out(desk, name, Asked(**asked))
    desk.printer.say(done.told)
    return done


def _show(desk: Desk, name: ActName, done: Done, next_sentence: str) -> None:
    if desk.printer.format is not Format.TABLE:
        desk.printer.show({"act": name, "dag_id": done.dag_id, "run_id": done.run_id, "told": done.told})
    elif next_sentence:
        desk.printer.say(next_sentence)
