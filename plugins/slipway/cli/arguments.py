"""Arguments and options that several commands have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from slipway.cli.failures import CommandError, ExitCode

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model's name, as in its release file.")
]
VersionArgument = Annotated[int, typer.Argument(metavar="VERSION", help="The version's number.", min=1)]
ReasonOption = Annotated[
    str, typer.Option("--reason", "-m", help="Why, in 3 to 500 characters. Others see it with your name.")
]
EvidenceOption = Annotated[
    str,
    typer.Option("--evidence", help="The page that shows why: its address or its key in the bucket."),
]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until it is done, and report how it ended.")
]
TimeoutOption = Annotated[
    str,
    typer.Option("--timeout", help="How long to wait, such as 90s, 30m or 2h; 0 waits as long as it takes."),
]
IntervalOption = Annotated[
    float, typer.Option("--interval", help="Seconds between two checks.", min=0.2, max=3600.0)
]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds_of(text: str, option: str = "--timeout") -> float | None:
    """Return a duration such as `90s`, `30m`, `2h`, `1d` or `45` in seconds; None for 0: as long as it takes.

    :param option: which one has it.
    :raises CommandError: it is invalid, or longer than a year.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 366 * 86_400:
        raise CommandError(
            f"{text!r} is not a duration",
            code=ExitCode.USAGE,
            expected="a number with a unit, such as 90s, 30m, 2h or 1d; a year at most",
            found=repr(text),
            remedy=f"give it as {option} 30m",
        )
    return seconds or None


def end_of(text: str, now: datetime) -> datetime:
    """Return when a freeze ends: a moment such as `2026-12-28T08:00+01:00`, or a duration from now such as `4h`.

    :raises CommandError: it is neither, or a moment without its time zone.
    """
    if text[-1:] in _UNITS and text[:-1].replace(".", "", 1).isdigit():
        return now + timedelta(seconds=seconds_of(text, "--until") or 0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise CommandError(
            f"{text!r} is not a time at which a freeze can end",
            code=ExitCode.USAGE,
            expected="a time with its time zone, such as 2026-12-28T08:00Z, or a duration, such as 4h",
            found="no time zone" if moment is not None else repr(text),
            remedy="give it as --until 2026-12-28T08:00Z",
        )
    return moment.astimezone(UTC)
