"""Waiting for the end of a freeze, or for a release window, without holding a worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from pydantic import TypeAdapter

from airflow_provider_triton.triggers.pace import Pace
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.holds import HoldReader
from slipway.release_record.record_reader import RecordReader
from slipway_core.errors import SlipwayError
from slipway_core.spec.rollout.release_windows import ReleaseWindow

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 20.0
# Whatever this does not see, the task that it wakes does.
LIMIT_S = 300.0
_ANSWER_LIMIT_S = 10.0
_WINDOWS = TypeAdapter(tuple[ReleaseWindow, ...])


class HoldChangedTrigger(BaseTrigger):
    """Fires when what holds a version may have changed, and at the latest after five minutes.

    That is: a freeze was set, was lifted or has ended, a window has opened, or something was written into the version's
    record, such as an override. It decides nothing: the task that it wakes asks anew.

    :param windows: the release file's windows, as JSON.
    """

    def __init__(self, *, bucket: str, model: str, version: int, windows: str, aws_conn_id: str) -> None:
        super().__init__()
        self.bucket = bucket
        self.model = model
        self.version = version
        self.windows = windows
        self.aws_conn_id = aws_conn_id

    @classmethod
    def of(
        cls, bucket: str, model: str, version: int, windows: Sequence[ReleaseWindow], aws_conn_id: str
    ) -> HoldChangedTrigger:
        """Return the trigger for a version under these windows."""
        text = _WINDOWS.dump_json(tuple(windows)).decode()
        return cls(bucket=bucket, model=model, version=version, windows=text, aws_conn_id=aws_conn_id)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "bucket": self.bucket,
                "model": self.model,
                "version": self.version,
                "windows": self.windows,
                "aws_conn_id": self.aws_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look now and then."""
        pace, deadline = Pace(), time.monotonic() + LIMIT_S
        store = ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=_ANSWER_LIMIT_S)
        first = await asyncio.to_thread(self._look, store)
        while time.monotonic() < deadline:
            await asyncio.sleep(POLL_INTERVAL_S)
            if await asyncio.to_thread(self._look, store) != first:
                break
        await pace.until_due()
        yield TriggerEvent(None)

    def _look(self, store: ModelStoreHook) -> tuple[str, int]:
        """Return what tells one state from another."""
        holds = HoldReader(store, self.model, _WINDOWS.validate_json(self.windows)).fingerprint()
        try:
            return holds, RecordReader(store, self.model, self.version).last_seq()
        except SlipwayError as error:
            log.warning("the record could not be read: %s", error)
            return holds, -1
