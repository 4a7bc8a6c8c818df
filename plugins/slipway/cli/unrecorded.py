"""What no record knows, in words: runs that wait, and what is uploaded but cannot be released."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from slipway.cli.failures import CommandError
from slipway.cli.plain import plain
from slipway_core.errors import UserError

if TYPE_CHECKING:
    from slipway.cli.invocation import Invocation
    from slipway.cli.server import Server
    from slipway_core.read_model.documents import ModelDocument
    from slipway_core.read_model.landed import LandedProblem
    from slipway_core.read_model.waiting import WaitingRun


def require_landed(invocation: Invocation, model: str, version: int) -> None:
    """Ask the server whether a version has landed whole, and can be released.

    :raises CommandError: it has not, or it cannot; the error says why and what to do.
    :raises TransientError: that is unknown.
    """
    from slipway_core.read_model import landed

    try:
        landed.require_landed(invocation.server.landed(model), version)
    except UserError as error:
        if isinstance(error, CommandError):
            raise
        raise CommandError(
            error.what,
            expected=error.expected,
            found=error.found,
            remedy=error.remedy or f"slipway get {model}",
        ) from None


def runs_waiting(server: Server, document: ModelDocument, version: int | None = None) -> list[WaitingRun]:
    """Return a model's runs that wait, as the server was read last, without a release that its document knows."""
    known = "" if document.open_release is None else document.open_release.release_id
    return [
        run
        for run in server.waiting
        if run.model == document.model and run.run_id != known and version in (None, run.version)
    ]


def waiting_words(runs: Iterable[WaitingRun], now: datetime) -> str:
    """Write what runs wait for; "" for none."""
    from slipway_core.read_model.waiting import waiting_sentence

    return "; ".join(plain(waiting_sentence(run, now)) for run in runs)


def unusable_lines(problems: Iterable[LandedProblem], *, with_model: bool) -> Iterator[str]:
    """Write what has landed and starts nothing, a line each.

    :param with_model: the line names the model.
    """
    for one in problems:
        what = one.place if one.version is None else f"version {one.version}"
        model = f"{one.model} " if with_model and one.version is not None else ""
        state = "landed, unusable" if one.blocks else "landed, not started"
        yield plain(f"{model}{what} {state}: {one.sentence}")
