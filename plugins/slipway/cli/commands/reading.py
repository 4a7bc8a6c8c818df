"""The commands that show something, and change nothing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipway.cli.arguments import IntervalOption, ModelArgument, VersionArgument
from slipway.cli.invocation import Invocation, OutputOption, command
from slipway.cli.output import Format, as_json, table_of
from slipway.cli.server import UnknownVersionError
from slipway.cli.unrecorded import runs_waiting, unusable_lines, waiting_words
from slipway.cli.words import ended, in_flight, live, moment, notes, styled

PANEL = "Look"


def add_to(app: typer.Typer) -> None:
    """Declare the commands."""
    command(
        app, "list", PANEL, examples=("slipway list", "slipway list -o json | jq '.models[].live_version'")
    )(list_models)
    command(
        app,
        "get",
        PANEL,
        examples=(
            "slipway get digits",
            "slipway get digits -w",
            "slipway get digits -o yaml",
            "slipway get digits 3",
        ),
    )(get)
    command(
        app,
        "explain",
        PANEL,
        examples=("slipway explain digits 3", "slipway explain digits 3 --log"),
    )(explain)
    command(app, "dashboard", PANEL, examples=("slipway dashboard", "slipway dashboard digits"))(dashboard)


def list_models(invocation: Invocation, *, output: OutputOption = Format.TABLE) -> None:
    """List the models: what is live, what is under way, and how the last release ended."""
    models, now = invocation.server.models(), invocation.clock.now()
    documents = {
        "models": [_listed(name, found) for name, found in models.items()],
        "freezes": [as_json(one) for one in invocation.server.freezes],
        "waiting": [as_json(one) for one in invocation.server.waiting],
        "unusable": [as_json(one) for one in invocation.server.unusable],
    }
    invocation.warn(invocation.server.age_note)
    if output is not Format.TABLE:
        invocation.printer.show(documents)
        return
    for one in invocation.server.freezes:
        invocation.printer.say(f"Every model is frozen by {one.by} until {moment(one.until)}: {one.reason}")
    rows: list[list[object]] = []
    for name, found in models.items():
        if isinstance(found, str):
            rows.append([name, "?", styled("failed", f"cannot be read: {found}"), "", ""])
        else:
            last = styled(found.last.outcome if found.last is not None else "", ended(found.last))
            waits = waiting_words(runs_waiting(invocation.server, found), now)
            under_way = "; ".join(filter(None, (in_flight(found.open_release), waits)))
            rows.append([name, live(found, now), under_way, last, notes(found, now)])
    if not rows and not invocation.server.unusable:
        invocation.printer.say(
            "No model has a release file or a record yet. Next: slipway init MODEL --onnx FILE"
        )
        return
    columns = ["MODEL", "LIVE", "IN FLIGHT", "LAST RELEASE", "NOTES"]
    if not any(row[-1] for row in rows):
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    invocation.printer.show(documents, table_of(columns, rows))
    for line in unusable_lines(invocation.server.unusable, with_model=True):
        invocation.printer.say(line)


def _listed(name: str, found: Any) -> dict[str, Any]:
    """Return a model in a list: its document without its versions, which `get` has."""
    if isinstance(found, str):
        return {"model": name, "unreadable": found}
    document = as_json(found)
    del document["versions"]
    return dict(document)


def get(
    invocation: Invocation,
    model: ModelArgument,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="A version other than the newest.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep watching for changes; stop with Ctrl-C.")
    ] = False,
    interval: IntervalOption = 2.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one model as a tree: revisions and weights, the current step, the verdict and its evidence, last versions.

    With -w, the tree updates every --interval seconds. With `-o json -w`, each change is one line of JSON.
    """
    from slipway.cli.watching import look_at, shown, watch_model

    if watch:
        watch_model(invocation, model, version, interval)
        return
    look = look_at(invocation.server, model, version, invocation.clock.now())
    invocation.warn(look.age_note)
    invocation.printer.show(look.as_json(), shown(look) if output is Format.TABLE else None)


def explain(
    invocation: Invocation,
    model: ModelArgument,
    version: VersionArgument,
    log: Annotated[bool, typer.Option("--log", help="Also print every event.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Explain what happened to a version and why: each gate, the canary's verdict, and who did what."""
    from slipway.cli.explaining import explained

    try:
        found = invocation.server.version(model, version)
    except UnknownVersionError:
        if not _explained_unrecorded(invocation, model, version, output):
            raise
        return
    invocation.warn(invocation.server.age_note)
    document = {"release": as_json(found.view), "live": None if found.live is None else as_json(found.live)}
    if output is not Format.TABLE:
        invocation.printer.show(document)
        return
    invocation.printer.console.print(
        explained(found, invocation.clock.now(), pages=invocation.pages, with_log=log)
    )


def _explained_unrecorded(invocation: Invocation, model: str, version: int, output: Format) -> bool:
    """Explain a version that no record knows; False: nothing is known of it."""
    document = invocation.server.model_or_empty(model, invocation.clock.now())
    runs = runs_waiting(invocation.server, document, version)
    problems = [one for one in invocation.server.unusable if one.version == version]
    if not runs and not problems:
        return False
    if output is not Format.TABLE:
        invocation.printer.show(
            {"waiting": [as_json(one) for one in runs], "unusable": [as_json(one) for one in problems]}
        )
        return True
    invocation.printer.say(f"{model} version {version} has no record: no release of it was admitted.")
    if runs:
        invocation.printer.say(waiting_words(runs, invocation.clock.now()))
    for line in unusable_lines(problems, with_model=False):
        invocation.printer.say(line)
    return True


def dashboard(
    invocation: Invocation,
    model: Annotated[str | None, typer.Argument(help="A model's page instead of the overview.")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the address of the dashboard. You sign in there with your Airflow account."""
    from urllib.parse import quote

    address = (
        f"{invocation.pages}/" if model is None else f"{invocation.pages}/models/{quote(model, safe='')}"
    )
    if output is Format.TABLE:
        print(address)
    else:
        invocation.printer.show({"address": address})
