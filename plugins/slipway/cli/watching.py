"""A model looked at again and again: the live tree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from slipway.cli.output import Format, as_json
from slipway.cli.plain import plain
from slipway.cli.server import Server, UnknownVersionError, VersionDocuments
from slipway.cli.tree import tree_of
from slipway.cli.unrecorded import runs_waiting, unusable_lines, waiting_words
from slipway.cli.words import in_flight, moment, percent
from slipway_core.errors import TransientError
from slipway_core.read_model.documents import ModelDocument

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slipway.cli.invocation import Invocation
    from slipway_core.read_model.landed import LandedProblem
    from slipway_core.read_model.waiting import WaitingRun


@dataclass(frozen=True)
class Look:
    """What there is to show of a model at a moment.

    :param release: of the version that is asked for, else of the one under way, else of the newest.
    :param waiting: runs of the model that no record knows yet.
    :param unusable: what has landed and starts nothing.
    :param age_note: how old this is, in words; "": as new as can be.
    """

    document: ModelDocument
    release: VersionDocuments | None
    at: datetime
    waiting: tuple[WaitingRun, ...] = ()
    unusable: tuple[LandedProblem, ...] = ()
    age_note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the documents as values that JSON has."""
        live = None if self.release is None else self.release.live
        return {
            "model": as_json(self.document),
            "release": None if self.release is None else as_json(self.release.view),
            "live": None if live is None else as_json(live),
            "waiting": [as_json(one) for one in self.waiting],
            "unusable": [as_json(one) for one in self.unusable],
        }


def look_at(server: Server, model: str, version: int | None, now: datetime) -> Look:
    """Read a model, and the release that is of interest."""
    document = server.model(model)
    waiting, unusable, ages = tuple(runs_waiting(server, document)), server.unusable, [server.age_note]
    wanted = version or _of_interest(document)
    release = None
    if wanted is not None:
        try:
            release = server.version(model, wanted)
            ages.append(server.age_note)
        except UnknownVersionError:
            known = {*(one.version for one in waiting), *(one.version for one in unusable)}
            if wanted not in known:
                raise
    return Look(document, release, now, waiting, unusable, next(filter(None, ages), ""))


def shown(look: Look) -> RenderableType:
    """Return the look as a tree."""
    from rich.console import Group
    from rich.text import Text

    lines = [f"Waiting: {waiting_words([run], look.at)}" for run in look.waiting]
    lines += unusable_lines(look.unusable, with_model=False)
    tree = tree_of(look.document, look.release, look.at)
    return Group(tree, Text(), *(Text(line, style="yellow") for line in lines)) if lines else tree


def watch_model(
    invocation: Invocation, model: str, version: int | None, interval: float, *, looks: int | None = None
) -> None:
    """Show a model until the person ends it; where no terminal is, such as in a pipe, a line for each change.

    A server that does not answer for a while ends nothing: the last tree stays, with a line that says so.

    :param looks: end after so many; None: never.
    """
    first = look_at(invocation.server, model, version, invocation.clock.now())
    if invocation.printer.format is Format.TABLE and not invocation.printer.console.is_terminal:
        _watch_changes(invocation, first, version, interval, looks)
    elif invocation.printer.format is Format.TABLE:
        _watch_tree(invocation, first, version, interval, looks)
    else:
        _watch_lines(invocation, first, version, interval, looks)


def _watch_tree(
    invocation: Invocation, first: Look, version: int | None, interval: float, looks: int | None
) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    look, done = first, 1
    with Live(
        _with_age(look), console=invocation.printer.console, auto_refresh=False, transient=False
    ) as live:
        while looks is None or done < looks:
            invocation.clock.sleep(interval)
            done += 1
            try:
                look = look_at(invocation.server, first.document.model, version, invocation.clock.now())
                live.update(_with_age(look), refresh=True)
            except TransientError as error:
                seconds = (invocation.clock.now() - look.at).total_seconds()
                problem = f"No answer for {seconds:.0f} s: {plain(error.in_short())}"
                live.update(Group(Text(problem, style="yellow"), Text(), shown(look)), refresh=True)


def _with_age(look: Look) -> RenderableType:
    """Return the tree below a line that says how old it is, where it is not new."""
    from rich.console import Group
    from rich.text import Text

    if not look.age_note:
        return shown(look)
    return Group(Text(plain(f"Note: {look.age_note}"), style="yellow"), Text(), shown(look))


def _watch_lines(
    invocation: Invocation, first: Look, version: int | None, interval: float, looks: int | None
) -> None:
    last, done = "", 0
    look: Look | None = first
    while True:
        if look is not None and (line := json.dumps(look.as_json())) != last:
            last = line
            print(line, flush=True)
        done += 1
        if looks is not None and done >= looks:
            return
        invocation.clock.sleep(interval)
        try:
            look = look_at(invocation.server, first.document.model, version, invocation.clock.now())
        except TransientError as error:
            look = None
            invocation.printer.say(f"No answer: {error.in_short()}")


def _watch_changes(
    invocation: Invocation, first: Look, version: int | None, interval: float, looks: int | None
) -> None:
    """Print a line with its time for each change, at once: nobody sees a tree that is drawn over."""
    last, done = "", 0
    line = _in_a_line(first)
    while True:
        if line != last:
            last = line
            print(f"{moment(invocation.clock.now())}  {line}", flush=True)
        done += 1
        if looks is not None and done >= looks:
            return
        invocation.clock.sleep(interval)
        try:
            line = _in_a_line(
                look_at(invocation.server, first.document.model, version, invocation.clock.now())
            )
        except TransientError as error:
            line = f"no answer: {plain(error.in_short())}"


def _in_a_line(look: Look) -> str:
    """Write what a model and its release are doing, without what changes with every request."""
    document, release = look.document, look.release
    parts = [
        "live: none" if document.live_version is None else f"live: version {document.live_version}",
        in_flight(document.open_release) or "nothing in flight",
    ]
    if release is not None:
        line, live = release.view.line, release.live
        if line.outcome != "open":
            parts.append(f"version {line.version} {line.outcome.replace('_', ' ')}")
            parts += [line.reason] if line.reason else []
        elif live is not None and live.release_id == line.release_id:
            parts += [
                f"observed {percent(live.weight_observed)}",
                f"verdict {live.verdict or 'inconclusive'}",
            ]
            parts += [f"paused: {live.paused}"] if live.paused else []
            parts += [f"decided: {live.decision}"] if live.decision else []
    parts += [f"frozen by {one.by}" for one in document.freezes if one.until > look.at]
    return plain("; ".join(parts))


def _of_interest(document: ModelDocument) -> int | None:
    if document.open_release is not None:
        return document.open_release.version
    newest = max(
        (line for line in document.versions if line.started_at is not None),
        key=lambda line: (line.started_at, line.version),
        default=None,
    )
    return newest.version if newest is not None else None
