"""A release's tasks around its canary, run as Airflow runs them, in a process that may be killed at any time.

The operators and triggers are the real ones. What Airflow keeps in its database, which task is due, how often it
was tried and what it is deferred to, is a file that is replaced in one step: a process that is started again goes
on from there as a scheduler would. A worker that died has its task tried anew from the beginning; a triggerer that
died has its trigger made again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from benchmarks.chaos.job import Job
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.base import ReleaseOperator
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.registry.registry import ModelRegistry
from slipway_core.record.kinds import StageFinished
from slipway_core.record.requirements import requirements_of
from slipway_sandbox.host.child_process import end_with_parent

if TYPE_CHECKING:
    from airflow.sdk import Context

RETRY_S = 1.0


@dataclass(frozen=True)
class Task:
    """A task of the DAG: what it runs, how often it is tried again, what follows success and what failure."""

    operator: type[BaseOperator]
    retries: int
    then: str
    otherwise: str


class GatesPassedOperator(ReleaseOperator):
    """Stands in for the gates, which these runs are not about: says in the record that they passed."""

    def run(self, context: Context) -> None:
        """Writes what the staging tasks write, for the manifest that is published."""
        release_run = self.release_run
        _, digest = ModelRegistry(self.store).require_with_digest(release_run.model, release_run.version)
        for gate in requirements_of(release_run.spec, first=release_run.stable is None).gates:
            self.record.append(StageFinished(stage=gate, outcome="passed", manifest_sha256=digest))


# The retries are the DAG's. Where the DAG pauses for ten seconds and more before each, here it is one second, and the
# tasks that nothing but the object store can hold up are tried as long as it may be away.
TASKS = {
    "admit": Task(AdmitReleaseOperator, 30, "gates", "end"),
    "gates": Task(GatesPassedOperator, 30, "arm", "conclude"),
    "arm": Task(ArmRollbackOperator, 2, "shift", "conclude"),
    "shift": Task(ShiftTrafficOperator, 3, "promote", "restore"),
    "promote": Task(PromoteOperator, 2, "restore", "restore"),
    "restore": Task(RestoreStableOperator, 10, "conclude", "conclude"),
    "conclude": Task(ConcludeReleaseOperator, 30, "end", "end"),
}


def run(job: Job, database: str, log_file: str) -> None:
    """Goes on with the release until no task is due any more."""
    end_with_parent()
    os.environ.update(job.environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True)
    tasks = Tasks(job, Path(database))
    while tasks.due:
        tasks.take_turn()


class Tasks:
    """The tasks of one release, and where they stand."""

    def __init__(self, job: Job, database: Path) -> None:
        self._job, self._database = job, database
        self._state: dict[str, Any] = {
            "task": "admit",
            "tries": 0,
            "deferred": None,
            "release_run": "",
            "failed": [],
            "log": [],
        }
        if database.exists():
            self._state = json.loads(database.read_text(encoding="utf-8"))

    @property
    def due(self) -> bool:
        """Whether there is anything left to do."""
        return self._state["task"] in TASKS

    def take_turn(self) -> None:
        """Does the one next thing: runs a task, waits for a trigger, or resumes a task."""
        name, deferred = self._state["task"], self._state["deferred"]
        if deferred is not None and deferred["event"] is None:
            deferred["event"] = asyncio.run(_event_of(*deferred["trigger"]))
            self._save(deferred=deferred)
            return
        if deferred is None:
            self._save(tries=self._state["tries"] + 1)
        else:
            self._save(deferred=None)
        try:
            result = self._execute(name, deferred)
        except TaskDeferred as waits:
            trigger, method = waits.trigger.serialize(), waits.method_name
            self._save(
                deferred={"trigger": trigger, "method": method, "kwargs": waits.kwargs or {}, "event": None}
            )
        except AirflowFailException as error:
            self._fail(name, f"{name} failed: {error}")
        except Exception as error:
            logging.exception("%s, try %s", name, self._state["tries"])
            if self._state["tries"] > TASKS[name].retries:
                self._fail(name, f"{name} failed for good: {error}")
            else:
                self._tell(f"{name} is tried again: {type(error).__name__}: {error}")
                time.sleep(RETRY_S)
        else:
            release_run = json.dumps(result) if name == "admit" else self._state["release_run"]
            self._tell(f"{name} succeeded")
            self._save(task=TASKS[name].then, tries=0, deferred=None, release_run=release_run)

    def _execute(self, name: str, deferred: Mapping[str, Any] | None) -> Any:
        job, operator_class = self._job, TASKS[name].operator
        given = {"release": self._state["release_run"]}
        if name == "admit":
            given = {"releases_dir": job.releases_dir, "bucket": job.bucket}
        operator: Any = operator_class(task_id=name, **given)
        context = job.context(self._state["tries"])
        if deferred is None:
            return operator.execute(context)
        return getattr(operator, deferred["method"])(context, deferred["event"], **deferred["kwargs"])

    def _fail(self, name: str, why: str) -> None:
        self._tell(why)
        failed = [*self._state["failed"], name]
        self._save(task=TASKS[name].otherwise, tries=0, deferred=None, failed=failed)

    def _tell(self, text: str) -> None:
        self._save(log=[*self._state["log"], (datetime.now(UTC).timestamp(), text[:300])])

    def _save(self, **changes: Any) -> None:
        self._state |= changes
        fresh = self._database.with_suffix(".fresh")
        fresh.write_text(json.dumps(self._state), encoding="utf-8")
        fresh.replace(self._database)


async def _event_of(path: str, arguments: dict[str, Any]) -> Any:
    """The event of a trigger that is made from what it said of itself, as a triggerer does it."""
    module, _, name = path.rpartition(".")
    trigger = getattr(import_module(module), name)(**arguments)
    async for event in trigger.run():
        return event.payload
    raise RuntimeError("the trigger ended without an event")
