"""A name that nobody knows gets the nearest one that is known; names are read only where a command has been refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slipway.cli.failures import CommandError, ExitCode, exit_code_of
from slipway.cli.plain import plain
from slipway.cli.server import Server, UnknownVersionError
from slipway_core.errors import SlipwayError
from slipway_core.identifiers import nearest

_SHOWN = 20


def with_near_name(
    server: Callable[[], Server], given: Mapping[str, Any], error: SlipwayError
) -> SlipwayError:
    """Return the error of a command; where the model is one that the server does not know, an error that says so.

    :param server: returns where names are read; it is signed in to at the first need.
    :param given: the command's arguments.
    """
    model = given.get("model")
    if not isinstance(model, str) or exit_code_of(error) is not ExitCode.REFUSED:
        return error
    try:
        known = sorted(server().models())
    except SlipwayError:
        return error
    if model in known:
        return _of_known(server, model, given, error)
    return CommandError(
        f"there is no model {plain(model)!r}{did_you_mean(model, known)}",
        expected=_one_of(known, "model", "a release file or a record: slipway init creates a release file"),
        found=error.found or error.what,
        remedy="slipway list",
    )


def _of_known(
    server: Callable[[], Server], model: str, given: Mapping[str, Any], error: SlipwayError
) -> SlipwayError:
    """Return the error about a known model; with the versions or findings that are known, where it names another."""
    finding = given.get("finding")
    if finding is None and not isinstance(error, UnknownVersionError):
        return error
    try:
        document = server().model(model)
    except SlipwayError:
        return error
    if finding is not None:
        known, what, word = [one.name for one in document.findings], "finding", str(finding)
    else:
        known, what = [str(line.version) for line in document.versions], "version"
        word = str(given.get("version") or given.get("run") or "")
    if word in known:
        return error
    return CommandError(
        f"{error.what}{did_you_mean(word, known)}",
        expected=_one_of(known, what, error.expected or f"a {what} of {model}: there are none"),
        found=error.found,
        remedy=error.remedy,
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with the nearest known name, to be put behind a sentence; "" where none is near."""
    near = nearest(word, known)
    return f" (did you mean {plain(near)}?)" if near is not None else ""


def _one_of(known: list[str], what: str, otherwise: str) -> str:
    if not known:
        return otherwise
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"a known {what}: {', '.join(map(plain, known[:_SHOWN]))}{more}"
