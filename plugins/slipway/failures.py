"""How the project's errors become Airflow's: who has to act decides whether a task is tried again.

And how a task's log shows them: as one short block. Where an error came from in the code says nothing about a model
that was refused; a traceback is kept for what nobody has foreseen.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_triton.errors import TritonError
from slipway.triton_errors import slipway_error
from slipway_core.errors import (
    GateInconclusiveError,
    GateRefusedError,
    SlipwayError,
    TransientError,
    UserError,
)

SET_ASIDE_KEY = "set_aside"
"""The XCom in which a task names what it leaves aside because something is wrong with it."""
UNREADABLE_KEY = "unreadable_messages"
"""The XCom in which intake names what it could not read of messages: `number`, and the first `reasons`."""

_HEADINGS: tuple[tuple[type[SlipwayError], str], ...] = (
    (GateRefusedError, "REFUSED"),
    (GateInconclusiveError, "INCONCLUSIVE"),
    (UserError, "NOT POSSIBLE"),
    (TransientError, "NOT NOW"),
)
_LABEL_WIDTH, _LINE_WIDTH = 10, 90


class PlainFailure(AirflowFailException):
    """A failure whose message says all: it is not retried, and the log shows it without a traceback.

    :param why: the reason, where the message does not tell it.
    :param page: the address of the page that shows why; "": there is none.
    """

    def __init__(self, message: str, *, why: str = "", page: str = "") -> None:
        super().__init__(f"{message} {why}".strip())
        self.message, self.why, self.page = message, why, page


@contextmanager
def airflow_failures(page: Callable[[], str] | None = None) -> Iterator[None]:
    """What a person must fix, and what a gate refused or could not tell, fails the task without retries.

    A `TransientError` passes through, so that Airflow tries the task again.

    :param page: returns the address of the page that shows why, for the task's log.
    """
    try:
        yield
    except (UserError, GateRefusedError, GateInconclusiveError) as error:
        raise PlainFailure(str(error), page="" if page is None else page()) from error


def block_of(error: BaseException | None) -> str | None:
    """Return how a task's log shows an error, a line for each thing that is known; None: with its traceback."""
    cause, page = error, ""
    if isinstance(error, AirflowFailException):
        cause, page = error.__cause__ or error, getattr(error, "page", "")
    if isinstance(cause, TritonError):
        cause = slipway_error(cause)
    if isinstance(cause, SlipwayError):
        heading = next((one for kind, one in _HEADINGS if isinstance(cause, kind)), "FAILED")
        lines = [("expected", cause.expected), ("found", cause.found), ("to do", cause.remedy)]
        what = cause.what
    elif isinstance(cause, PlainFailure):
        heading, what, lines = "FAILED", cause.message, [("why", cause.why or None)]
    else:
        return None
    lines.append(("see", page or None))
    shown = [f"  {label:<{_LABEL_WIDTH}}{_indented(text)}" for label, text in lines if text]
    return "\n".join([f"{heading}: {_indented(what)}", *shown])


def show_failures_as_blocks() -> None:
    """Let the log of this process, which is a task's, show the project's errors as blocks.

    Airflow's task runner logs each error with its traceback, and asks nobody. Its log is structlog's, whose processors
    are one list for all loggers. Where that is no longer so, the traceback is shown.
    """
    import structlog

    processors = structlog.get_config()["processors"]
    if _without_traceback not in processors:
        processors.insert(0, _without_traceback)


def _without_traceback(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the text and the traceback of a log entry about one of the project's errors; structlog's processor."""
    error = event.get("exc_info")
    if isinstance(error, tuple):
        error = error[1]
    elif error and not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    block = block_of(error) if isinstance(error, BaseException) else None
    if block is not None:
        del event["exc_info"]
        event["event"] = block
    return event


def _indented(text: str) -> str:
    """Return the text in lines that a screen shows whole, each further one below the first one's words."""
    lines = (
        part
        for line in text.strip().splitlines()
        for part in textwrap.wrap(line, _LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
    )
    return ("\n" + " " * (2 + _LABEL_WIDTH)).join(lines)
