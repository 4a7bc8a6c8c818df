"""How the project's errors become Airflow's: who has to act decides whether a task is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from include.model_release.errors import GateInconclusiveError, GateRefusedError, UserError

SET_ASIDE_KEY = "set_aside"
"""The XCom in which a task names what it leaves aside because something is wrong with it."""


@contextmanager
def airflow_failures() -> Iterator[None]:
    """What a person must fix, and what a gate refused or could not tell, fails the task without retries.

    A `TransientError` passes through, so that Airflow tries the task again.
    """
    try:
        yield
    except (UserError, GateRefusedError, GateInconclusiveError) as error:
        raise AirflowFailException(str(error)) from error
