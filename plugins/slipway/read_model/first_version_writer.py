"""The live document of a first version while it comes up: pages say what holds up its pods.

There is no canary to watch: the document has no steps and no windows. Nothing waits for a write, and one that fails
leaves pages with what they had.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import live_key
from slipway_core.errors import SlipwayError
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.stored import cut

log = logging.getLogger(__name__)

EVERY_S = 10.0
"""How soon an unchanged document is written again: pages call one silent that is older than 40 s."""
LIMIT_S = 5.0
"""How long one write may take."""


class FirstVersionWriter:
    """Writes what a first version waits for, once there is something to say.

    :param store: the release's bucket; its calls block, in a thread of their own.
    """

    def __init__(self, store: ModelStoreHook, release_run: ReleaseRun) -> None:
        self._store, self._release_run = store, release_run
        self._calls = BlockingCalls("the object store, for pages", LIMIT_S)
        self._task: asyncio.Task[None] | None = None
        self._written: str | None = None
        self._began_s = 0.0

    def write(self, waiting: str) -> None:
        """Have the document written soon if it says something new, or is old; called in the event loop.

        :param waiting: why the version is not up yet; "": nothing is known to hold it up.
        """
        if self._written is None and not waiting:
            return
        now_s = time.monotonic()
        is_due = waiting != self._written or now_s - self._began_s >= EVERY_S
        if is_due and (self._task is None or self._task.done()):
            self._began_s = now_s
            self._task = asyncio.create_task(self._write(waiting))

    async def end(self) -> None:
        """Say that nothing holds the version up any more, where something did; it takes two writes' time at most."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._written:
            await self._write("")

    async def _write(self, waiting: str) -> None:
        release_run = self._release_run
        document = LiveDocument(
            model=release_run.model,
            version=release_run.version,
            release_id=cut(release_run.release_id),
            written_at=datetime.now(UTC),
            weight_intended=100,
            waiting=cut(waiting),
        )
        key, content = live_key(release_run.model), document.to_bytes()
        try:
            await self._calls.run(lambda: self._store.write(key, content, content_type="application/json"))
        except Exception as error:  # pages are behind, and nothing else comes of it
            reason = error.in_short() if isinstance(error, SlipwayError) else type(error).__name__
            log.info("pages show an older state of this first version: %s", reason)
            return
        self._written = waiting
