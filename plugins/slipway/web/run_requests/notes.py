"""Notes of runs that wait to be written: the newest of each run, one after the other, beside the requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from slipway.blocking_calls import BlockingCalls
from slipway.workflows import WORKFLOWS
from slipway_core.operations.run_notes import NOTE_LIMIT

log = logging.getLogger(__name__)

DAG_IDS = frozenset(one.dag_id for one in WORKFLOWS.values() if one.writes_notes)
"""The DAGs whose tasks write notes; a task of another one can change none."""

WRITE_LIMIT_S = 10.0
_MOST_WAITING = 1000


class NoteKeeper:
    """Writes notes in a thread. Where the database hangs, a note is dropped after the limit, and nothing else happens.

    :param write: writes the note of a run of a DAG.
    :param limit_s: how long one may take.
    """

    def __init__(self, write: Callable[[str, str, str], None], limit_s: float = WRITE_LIMIT_S) -> None:
        self._write = write
        self._calls = BlockingCalls("Airflow's database", limit_s)
        self._waiting: dict[tuple[str, str], str] = {}
        self._writing: asyncio.Task[None] | None = None

    def keep(self, dag_id: str, run_id: str, note: object) -> None:
        """Have a note written; an invalid one, or another's, is left alone."""
        if dag_id not in DAG_IDS or not isinstance(note, str) or not note.strip() or len(note) > NOTE_LIMIT:
            return
        if len(self._waiting) >= _MOST_WAITING and (dag_id, run_id) not in self._waiting:
            log.warning(
                "%s notes are waiting to be written; dropping that of run %s", len(self._waiting), run_id
            )
            return
        self._waiting[dag_id, run_id] = note
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def written(self) -> None:
        """Wait until nothing waits any more."""
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            note = self._waiting.pop(key)
            try:
                await self._calls.run(partial(self._write, *key, note))
            except Exception as error:  # a note is worth no failure
                log.warning("the note of run %s of %s is not written: %s", key[1], key[0], error)
