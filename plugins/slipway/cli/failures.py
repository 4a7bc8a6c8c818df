"""How a command ends: its exit code, and the one form of an error."""

from __future__ import annotations

from enum import IntEnum

from slipway.cli.plain import plain
from slipway_core.errors import SlipwayError, TimedOutError, TransientError


class ExitCode(IntEnum):
    """What a script reads of a command."""

    FINE = 0
    REFUSED = 1
    """The request was refused, what it is about does not exist, or the release ended badly."""
    USAGE = 2
    """The command line or the configuration is wrong; no request was sent."""
    UNREACHABLE = 3
    """The server does not answer, or answers with an internal error. Trying again may help."""
    NOT_ALLOWED = 4
    """You are not signed in, or not allowed to do this."""
    TIMEOUT = 5
    """The wait timed out; what it waited for may still happen."""
    INTERRUPTED = 130


EXIT_CODES = {
    ExitCode.FINE: "fine",
    ExitCode.REFUSED: "refused, not found, or failed",
    ExitCode.USAGE: "the command line, a file or the configuration is wrong",
    ExitCode.UNREACHABLE: "the server does not answer",
    ExitCode.NOT_ALLOWED: "not signed in, or not allowed",
    ExitCode.TIMEOUT: "timed out while waiting",
    ExitCode.INTERRUPTED: "interrupted",
}


class CommandError(SlipwayError):
    """A command cannot do what it was asked; `remedy` is the next command, or what else to do."""

    def __init__(
        self,
        what: str,
        *,
        code: ExitCode = ExitCode.REFUSED,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what, expected=expected, found=found, remedy=remedy)
        self.code = code


def exit_code_of(error: SlipwayError) -> ExitCode:
    """Return the exit code that an error ends a command with."""
    from slipway_airflow_api.errors import AddressError, SignInRefusedError

    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, AddressError):
        return ExitCode.USAGE
    if isinstance(error, SignInRefusedError):
        return ExitCode.NOT_ALLOWED
    if isinstance(error, TimedOutError):
        return ExitCode.TIMEOUT
    return ExitCode.UNREACHABLE if isinstance(error, TransientError) else ExitCode.REFUSED


def message_of(error: SlipwayError) -> str:
    """Return an error as it is printed: what, expected, found, and what to do next, each on a line."""
    # As it is: it may begin with a file's or a model's name.
    lines = [f"Error: {plain(error.what)}"]
    for label, text in (("expected", error.expected), ("found", error.found), ("next", error.remedy)):
        if text:
            lines.append(f"  {label + ':':<10}{plain(text)}")
    return "\n".join(lines)
