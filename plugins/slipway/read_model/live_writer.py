"""The live document of a canary, written over beside its watch.

The watch reports what it has seen and continues. One thread writes, one document at a time and always the newest; a
store that hangs or fails costs the watch nothing, and pages show what was written last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import UTC, datetime

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.live_reader import read_live
from slipway_core.bucket_layout import live_key
from slipway_core.canary.verdict import Verdict
from slipway_core.errors import SlipwayError
from slipway_core.read_model.live import WINDOWS_LIMIT, LiveDocument
from slipway_core.read_model.live_fold import Watched, live_document, live_window
from slipway_core.spec.rollout.plan import CanaryPlan

log = logging.getLogger(__name__)

LIMIT_S = 5.0
"""How long one write is waited for before the next one."""
_LAST_TRIES, _PAUSE_S = 30, 2.0
"""The end of a step, after which no window comes, is tried to be written so often, with a pause between."""

Judged = tuple[Verdict, datetime]
# asyncio forgets a task that nobody holds; the last document of a step is written after its watch has ended.
_writing: set[asyncio.Task[None]] = set()


class LiveObject:
    """The document of one canary in the store. It blocks.

    What the steps before, or a watch that was broken off, have reported is taken over from the existing document.
    """

    def __init__(self, store: ModelStoreHook, plan: CanaryPlan) -> None:
        self._store = store
        self._plan = plan
        self._before: LiveDocument | None = None
        self._is_read = False
        self._last_at: datetime | None = None

    def write(self, watched: Watched, judged: list[Judged], at: datetime) -> None:
        """Write the document.

        :param judged: the windows that were judged since the last write.
        :raises SlipwayError: the store does not take it.
        """
        if not self._is_read:
            self._before, self._is_read = read_live(self._store, watched.model), True
        # A write that was given up may have ended all the same: its windows come a second time.
        new = [one for one in judged if self._last_at is None or one[1] > self._last_at]
        windows = [live_window(verdict, seen_at) for verdict, seen_at in new]
        document = live_document(watched, self._plan, windows, at=at, before=self._before)
        self._store.write(live_key(watched.model), document.to_bytes(), content_type="application/json")
        self._before, self._last_at = document, new[-1][1] if new else self._last_at


class LiveTeller:
    """Has the live document written; nothing that happens here reaches the watch.

    :param limit_s: how long one write is waited for before the next one.
    """

    def __init__(self, live_object: LiveObject, limit_s: float = LIMIT_S) -> None:
        self._object = live_object
        self._calls = BlockingCalls("the object store, for pages", limit_s)
        self._judged: deque[Judged] = deque(maxlen=WINDOWS_LIMIT)
        self._newest: tuple[Watched, datetime] | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_reason = ""

    def judged(self, verdict: Verdict) -> None:
        """Keep a verdict on a window for the next document."""
        self._judged.append((verdict, datetime.now(UTC)))

    def tell(self, watched: Watched) -> None:
        """Have the document written soon, in place of one that waits to be."""
        self._newest = (watched, datetime.now(UTC))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_newest())
            _writing.add(self._task)
            self._task.add_done_callback(_writing.discard)

    async def _write_newest(self) -> None:
        tries_left = _LAST_TRIES
        while (newest := self._newest) is not None:
            judged = list(self._judged)
            if await self._is_written(newest, judged):
                written = {id(one) for one in judged}
                left = [one for one in self._judged if id(one) not in written]
                self._judged = deque(left, maxlen=WINDOWS_LIMIT)
                if self._newest is newest:
                    self._newest = None
            elif not newest[0].decision or not tries_left:
                return  # the next window tries again
            else:
                tries_left -= 1
                await asyncio.sleep(_PAUSE_S)

    async def _is_written(self, newest: tuple[Watched, datetime], judged: list[Judged]) -> bool:
        """Write, and return whether it was; what keeps it from that is logged once."""
        try:
            await self._calls.run(lambda: self._object.write(newest[0], judged, newest[1]))
        except Exception as error:  # pages are behind, and nothing else comes of it
            reason = error.in_short() if isinstance(error, SlipwayError) else type(error).__name__
            if reason != self._last_reason:
                log.info("pages show an older state of this canary: %s", reason)
            self._last_reason = reason
            return False
        self._last_reason = ""
        return True
