"""The commands that show something, and change nothing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slipway.cli.arguments import IntervalOption, ModelArgument, VersionArgument
from slipway.cli.desk import Desk, OutputOption, command
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


def list_models(desk: Desk, *, output: OutputOption = Format.TABLE) -> None:
    """List the models: what is live, what is under way, how the last release ended."""
    models, now = desk.server.models(), desk.clock.now()
    documents = {
        "models": [_listed(name, found) for name, found in models.items()],
        "freezes": [as_json(one) for one in desk.server.freezes],
        "waiting": [as_json(one) for one in desk.server.waiting],
        "unusable": [as_json(one) for one in desk.server.unusable],
    }
    desk.warn(desk.server.age_note)
    if output is not Format.TABLE:
        desk.printer.show(documents)
        return
    for one in desk.server.freezes:
        desk.printer.say(f"Every model is frozen by {one.by} until {moment(one.until)}: {one.reason}")
    rows: list[list[object]] = []
    for name, found in models.items():
        if isinstance(found, str):
            rows.append([name, "?", styled("failed", f"cannot be read: {found}"), "", ""])
        else:
            last = styled(found.last.outcome if found.last is not None else "", ended(found.last))
            waits = waiting_words(runs_waiting(desk.server, found), now)
            under_way = "; ".join(filter(None, (in_flight(found.open_release), waits)))
            rows.append([name, live(found, now), under_way, last, notes(found, now)])
    if not rows and not desk.server.unusable:
        desk.printer.say("No model has a release file or a record yet. Next: slipway init MODEL --onnx FILE")
        return
    columns = ["MODEL", "LIVE", "IN FLIGHT", "LAST RELEASE", "NOTES"]
    if not any(row[-1] for row in rows):
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    desk.printer.show(documents, table_of(columns, rows))
    for line in unusable_lines(desk.server.unusable, with_model=True):
        desk.printer.say(line)


def _listed(name: str, found: Any) -> dict[str, Any]:
    """Return a model in a list: its document without its versions, which `get` has."""
    if isinstance(found, str):
        return {"model": name, "unreadable": found}
    document = as_json(found)
    del document["versions"]
    return dict(document)


def get(
    desk: Desk,
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
    """Show one model as a tree: revisions with their weight, steps with "here", verdict and evidence, last versions.

    With -w the tree is live: it asks again every --interval seconds. With `-o json -w` each change is one line of JSON.
    """
    from slipway.cli.watching import look_at, shown, watch_model

    if watch:
        watch_model(desk, model, version, interval)
        return
    look = look_at(desk.server, model, version, desk.clock.now())
    desk.warn(look.age_note)
    desk.printer.show(look.as_json(), shown(look) if output is Format.TABLE else None)


def explain(
    desk: Desk,
    model: ModelArgument,
    version: VersionArgument,
    log: Annotated[bool, typer.Option("--log", help="Also print every event.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say in words what became of a version and why: each gate, the canary's verdict, who did what."""
    from slipway.cli.explaining import explained

    try:
        found = desk.server.version(model, version)
    except UnknownVersionError:
        if not _explained_unrecorded(desk, model, version, output):
            raise
        return
    desk.warn(desk.server.age_note)
    document = {"release": as_json(found.view), "live": None if found.live is None else as_json(found.live)}
    if output is not Format.TABLE:
        desk.printer.show(document)
        return
    desk.printer.console.print(explained(found, desk.clock.now(), pages=desk.pages, with_log=log))


def _explained_unrecorded(desk: Desk, model: str, version: int, output: Format) -> bool:
    """Explain a version that no record knows; False: nothing is known of it."""
    document = desk.server.model_or_empty(model, desk.clock.now())
    runs = runs_waiting(desk.server, document, version)
    problems = [one for one in desk.server.unusable if one.version == version]
    if not runs and not problems:
        return False
    if output is not Format.TABLE:
        desk.printer.show(
            {"waiting": [as_json(one) for one in runs], "unusable": [as_json(one) for one in problems]}
        )
        return True
    desk.printer.say(f"{model} version {version} has no record: no release of it was admitted.")
    if runs:
        desk.printer.say(waiting_words(runs, desk.clock.now()))
    for line in unusable_lines(problems, with_model=False):
        desk.printer.say(line)
    return True


def dashboard(
    desk: Desk,
    model: Annotated[str | None, typer.Argument(help="A model's page instead of the overview.")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print the address of the dashboard. It asks for Airflow's own login."""
    from urllib.parse import quote

    address = f"{desk.pages}/" if model is None else f"{desk.pages}/models/{quote(model, safe='')}"
    if output is Format.TABLE:
        print(address)
    else:
        desk.printer.show({"address": address})
