"""A release's tasks on live traffic, run as Airflow runs them, in a process that may be killed at any time.

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
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from slipway.hooks.record import ReleaseRecord
from slipway.hooks.store import ModelStoreHook
from slipway.operators.base import ReleaseOperator
from slipway.operators.canary import (
    ArmRollbackOperator,
    PromoteOperator,
    RestoreStableOperator,
    ShiftTrafficOperator,
)

from include.sandbox.triton import end_with_parent

RETRY_S = 1.0


class OpenRecord(ReleaseOperator):
    """What of the admission matters here: the record is open."""

    def run(self, context: Any) -> None:
        """Opens it, once."""
        ticket = self.ticket
        record = ReleaseRecord(
            ModelStoreHook(ticket.bucket, self.aws_conn_id), ticket.model, ticket.version, ticket.release_id
        )
        if not record.started():
            record.append("release_started", stable_storage_uri=ticket.stable and ticket.stable.storage_uri)


# Each task with the operator, how often it is tried again (as the DAG says), and what follows where it has
# succeeded and where it has failed. The admission cannot fail here: no users are there yet.
TASKS: dict[str, tuple[type[ReleaseOperator], int, str, str]] = {
    "admit": (OpenRecord, 1000, "arm", "end"),
    "arm": (ArmRollbackOperator, 2, "shift", "end"),
    "shift": (ShiftTrafficOperator, 3, "promote", "restore"),
    "promote": (PromoteOperator, 2, "restore", "restore"),
    "restore": (RestoreStableOperator, 10, "end", "gave_up"),
}


def run(ticket: str, database: str, log_file: str) -> None:
    """Goes on with the release until no task is due any more."""
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True)
    tasks = Tasks(ticket, Path(database))
    while tasks.due:
        tasks.take_turn()


class Tasks:
    """The tasks of one release, and where they stand."""

    def __init__(self, ticket: str, database: Path) -> None:
        self._ticket, self._database = ticket, database
        self._state: dict[str, Any] = {"task": "admit", "tries": 0, "deferred": None, "told": []}
        if database.exists():
            self._state = json.loads(database.read_text(encoding="utf-8"))

    @property
    def due(self) -> bool:
        """Whether there is anything left to do."""
        return self._state["task"] in TASKS

    def take_turn(self) -> None:
        """Does the one next thing: runs a task, waits for a trigger, or resumes a task."""
        name, deferred = self._state["task"], self._state["deferred"]
        operator_class, retries, next_one, otherwise = TASKS[name]
        if deferred is not None and deferred["event"] is None:
            deferred["event"] = asyncio.run(_event_of(*deferred["trigger"]))
            self._save(deferred=deferred)
            return
        operator = operator_class(task_id=name, release=self._ticket)
        if deferred is None:
            self._save(tries=self._state["tries"] + 1)
        else:
            self._save(deferred=None)
        try:
            if deferred is None:
                operator.execute({})
            else:
                getattr(operator, deferred["method"])({}, deferred["event"], **deferred["kwargs"])
        except TaskDeferred as waits:
            trigger, method = waits.trigger.serialize(), waits.method_name
            self._save(
                deferred={"trigger": trigger, "method": method, "kwargs": waits.kwargs or {}, "event": None}
            )
        except AirflowFailException as error:
            self._go_to(otherwise, f"{name} failed: {error}")
        except Exception as error:
            logging.exception("%s, try %s", name, self._state["tries"])
            if self._state["tries"] > retries:
                self._go_to(otherwise, f"{name} failed for good: {error}")
            else:
                self._tell(f"{name} is tried again: {type(error).__name__}: {error}")
                time.sleep(RETRY_S)
        else:
            self._go_to(next_one, f"{name} succeeded")

    def _go_to(self, task: str, why: str) -> None:
        self._tell(why)
        self._save(task=task, tries=0, deferred=None)

    def _tell(self, text: str) -> None:
        self._save(told=[*self._state["told"], (datetime.now(UTC).timestamp(), text[:300])])

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
