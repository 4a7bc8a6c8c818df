"""Waits until something is over, and says how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.plain import plain
from slipway.cli.unrecorded import runs_waiting
from slipway.cli.words import in_flight, moment
from slipway.workflows import MODEL_RELEASE, MODEL_ROLLBACK
from slipway_core.errors import TransientError
from slipway_core.operations.run_notes import own_words

if TYPE_CHECKING:
    from slipway.cli.invocation import Invocation
    from slipway_core.read_model.documents import ModelDocument, VersionLine

POLL_S = 2.0
_LOOKS_AFTER_END = 5
"""How often a run that is over is looked at again: the read model may be some seconds behind."""
_GOOD = {"promoted"}
_FINAL_RUNS = ("success", "failed")


@dataclass(frozen=True)
class Deadline:
    """Until when something is waited for; None: as long as it takes."""

    at: datetime | None

    @classmethod
    def after(cls, now: datetime, seconds: float | None) -> Deadline:
        """Return the deadline so many seconds from now."""
        return cls(None if seconds is None else now + timedelta(seconds=seconds))

    def is_over(self, now: datetime) -> bool:
        """Tell whether nothing is waited for any more."""
        return self.at is not None and now >= self.at


@dataclass(frozen=True)
class FollowedRun:
    """A run of a workflow: `state` is Airflow's, `note` what the run says of itself."""

    state: str
    note: str

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state in _FINAL_RUNS


def read_run(invocation: Invocation, dag_id: str, run_id: str, *, asked: str = "") -> FollowedRun:
    """Return a run as it is now.

    :param asked: the reason that it was started with, which is no word of the run's own.
    """
    path = f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns/{quote(run_id, safe='')}"
    document = json.loads(invocation.session.get(path))
    note = own_words(str(document.get("note") or ""), asked)
    return FollowedRun(str(document.get("state") or ""), plain(note))


def looks(invocation: Invocation, deadline: Deadline, what: str, remedy: str) -> Iterator[None]:
    """Yield for each look, with a pause between two.

    :param what: what is waited for, for the error.
    :raises CommandError: the time is over.
    """
    while True:
        yield
        if deadline.is_over(invocation.clock.now()):
            raise CommandError(
                f"timed out waiting for {what}",
                code=ExitCode.TIMEOUT,
                expected=f"it by {moment(deadline.at)}",
                found="it continues; nothing was stopped",
                remedy=remedy,
            )
        invocation.clock.sleep(POLL_S)


class Progress:
    """Says each sentence once, as long as it does not change."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation, self._last = invocation, ""

    def say(self, text: str) -> None:
        """Say it, unless it was the last thing that was said."""
        if text and text != self._last:
            self._last = text
            self._invocation.printer.say(f"{self._invocation.clock.now():%H:%M:%S}  {text}")


def wait_for_release(
    invocation: Invocation,
    model: str,
    deadline: Deadline,
    *,
    release_id: str = "",
    version: int | None = None,
) -> VersionLine | None:
    """Wait until a release is over; return the line of its version.

    :param release_id: the run; "": that of the release under way, or of the version.
    :return: None where nothing has been released.
    """
    progress, after_end = Progress(invocation), 0
    for _ in looks(invocation, deadline, f"the end of the release of {model}", f"slipway get {model} -w"):
        try:
            document = invocation.server.model_or_empty(model, invocation.clock.now())
            run = read_run(invocation, MODEL_RELEASE, release_id) if release_id else None
        except TransientError as error:
            progress.say(f"no answer: {plain(error.in_short())}")
            continue
        line = _line(document, release_id, version)
        waits = runs_waiting(invocation.server, document, version)
        progress.say(
            plain(in_flight(document.open_release))
            or "; ".join(f"{one.subject}: {one.status}" for one in waits)
        )
        if waits and run is None and document.open_release is None:
            continue  # it was started, and no record knows it yet
        if line is not None and line.outcome != "open" and (run is None or run.is_over):
            return line
        after_end += run is not None and run.is_over
        if run is not None and after_end > _LOOKS_AFTER_END:
            # It was not admitted: no record of it was begun, or none that the read model knows by now.
            became = (
                "released nothing"
                if line is None
                else "has ended, but its record says that it is still under way"
            )
            raise CommandError(
                f"the run {release_id} {became}",
                found=run.note or f"the run is {run.state}",
                remedy=f"slipway logs {model} {release_id}",
            )
        if line is None and run is None:
            return None
    return None


def _line(document: ModelDocument, release_id: str, version: int | None) -> VersionLine | None:
    if release_id:
        return next((line for line in document.versions if line.release_id == release_id), None)
    if version is not None:
        return document.line(version)
    if document.open_release is not None:
        return document.line(document.open_release.version)
    return document.last


def wait_for_rollback(
    invocation: Invocation, model: str, run_id: str, started: datetime, deadline: Deadline, *, asked: str
) -> None:
    """Wait until nobody reaches the version that was taken back, which is said, and then until the run is over.

    :param asked: the reason that it was started with.
    :raises CommandError: the run failed.
    """
    progress, is_safe, after_end = Progress(invocation), False, 0
    for _ in looks(invocation, deadline, f"the end of the rollback of {model}", f"slipway get {model} -w"):
        try:
            document = invocation.server.model_or_empty(model, invocation.clock.now())
            run = read_run(invocation, MODEL_ROLLBACK, run_id, asked=asked)
        except TransientError as error:
            progress.say(f"no answer: {plain(error.in_short())}")
            continue
        version = None if is_safe else _left_by_all(document, started)
        if version is not None:
            is_safe = True
            progress.say(f"0 % observed on version {version}: it gets no new requests")
        elif not is_safe:
            progress.say(plain(in_flight(document.open_release)) or "the rollback starts")
        # The read model may be some seconds behind its run.
        after_end += run.is_over
        if not is_safe and 0 < after_end <= _LOOKS_AFTER_END:
            continue
        if run.state == "success":
            progress.say(
                f"version {document.live_version} has all users" if document.live_version else "done"
            )
            return
        if run.is_over:
            raise CommandError(
                f"the rollback {run_id} failed"
                + (", but the version gets no new requests" if is_safe else ""),
                expected="a successful run",
                found=run.note or "no note; see its log",
                remedy=f"slipway logs {model} {run_id} --dag {MODEL_ROLLBACK}",
            )


def _left_by_all(document: ModelDocument, started: datetime) -> int | None:
    """Return the version on which weight 0 was observed since then; None: not yet."""
    release = document.open_release
    if release is not None and release.rolling_back and release.weight_observed == 0:
        return release.version
    since = started - timedelta(seconds=5)  # two clocks
    left = (line for line in document.versions if line.weight_0_at is not None and line.weight_0_at >= since)
    return next((line.version for line in left), None)


def wait_for_run(
    invocation: Invocation, dag_id: str, run_id: str, deadline: Deadline, next_command: str, *, asked: str
) -> None:
    """Wait until a run of a short workflow is over.

    :param asked: the reason that it was started with.
    :raises CommandError: it failed; the error has what the run says of itself.
    """
    progress = Progress(invocation)
    for _ in looks(invocation, deadline, f"the end of the run {run_id}", next_command):
        try:
            run = read_run(invocation, dag_id, run_id, asked=asked)
        except TransientError as error:
            progress.say(f"no answer: {plain(error.in_short())}")
            continue
        if run.state == "success":
            progress.say(run.note or "done")
            return
        if run.is_over:
            raise CommandError(
                f"the run {run_id} refused the request, or failed",
                expected="a successful run",
                found=run.note or "no note; see its log",
                remedy=next_command,
            )


def is_good(line: VersionLine) -> bool:
    """Tell whether a release ended as who started it wished."""
    return line.outcome in _GOOD
