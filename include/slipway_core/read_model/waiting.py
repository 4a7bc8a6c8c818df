"""Runs that Airflow has and no record knows yet: started, and waiting for something before they are admitted."""

from __future__ import annotations

import re
from datetime import datetime

from slipway_core.operations.run_notes import own_words
from slipway_core.read_model.stored import Line, ModelName, Part, Version, cut
from slipway_core.value_types import UtcTime

_BEHIND = re.compile(r"waits for release \S+ \(version (\d+)\)")
_BEFORE_WORKER = ("", "none", "scheduled")


class WaitingRun(Part):
    """A run that was started and is not in a record yet.

    `version` is None if the run names none, as a rollback may. `status` says what it waits for, `since` when it was
    requested, `triggered_by` who started it; "": nobody did.
    """

    model: ModelName
    version: Version | None = None
    run_id: Line
    is_rollback: bool = False
    since: UtcTime | None = None
    triggered_by: Line = ""
    status: Line

    @property
    def subject(self) -> str:
        """What the run is about, in words."""
        if self.is_rollback:
            return "roll back" if self.version is None else f"roll back to v{self.version}"
        return "a version" if self.version is None else f"v{self.version}"


def waits_for(state: str, admit_state: str, note: str, *, is_paused: bool) -> str:
    """Return what a run waits for that has not been admitted.

    :param state: of the run, as Airflow names it.
    :param admit_state: of its first task; "": it was not scheduled yet.
    :param note: of the run.
    :param is_paused: somebody has paused the workflow in Airflow.
    """
    if is_paused and admit_state in _BEFORE_WORKER:
        return "waiting: the workflow is paused in Airflow, so turn on its switch there"
    if state == "queued" or admit_state in _BEFORE_WORKER:
        return "waiting for the scheduler"
    if admit_state in ("queued", "up_for_retry", "restarting"):
        return "waiting for a worker" if admit_state == "queued" else "it will be retried soon"
    if admit_state == "deferred":
        behind = _BEHIND.search(note)
        if behind is not None:
            return f"queued behind v{behind.group(1)}"
        words = own_words(note, "")
        return cut(words) if words else "waiting until another release of the model ends"
    return "being admitted"


def waiting_sentence(run: WaitingRun, now: datetime) -> str:
    """Return where a run stands, with how long it has waited."""
    if run.since is None:
        return f"{run.subject}: {run.status}"
    seconds = max(int((now - run.since).total_seconds()), 0)
    length = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
    return f"{run.subject}: {run.status}, for {length}"
