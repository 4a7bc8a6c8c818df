"""Waiting for a model's lock without holding a worker, however many releases wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import LOCK_LIMIT_BYTES, LockOwner, lock_key
from slipway_core.errors import SlipwayError

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 5.0
# Nobody gives back the lock of a run that has died; who waits looks for that, in a worker, this often.
LIMIT_S = 300.0
# A store that hangs holds one of the few threads that all triggers of a triggerer share.
_ANSWER_LIMIT_S = 10.0


class LockFreedTrigger(BaseTrigger):
    """Fires when a model's lock is not the holder's any more, and at the latest after five minutes.

    It says nothing about who gets the lock: whoever waits asks for it anew.

    :param bucket: the bucket of the records.
    :param holder: the release that holds the lock.
    """

    def __init__(self, *, bucket: str, model: str, holder: str, aws_conn_id: str) -> None:
        super().__init__()
        self.bucket = bucket
        self.model = model
        self.holder = holder
        self.aws_conn_id = aws_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "bucket": self.bucket,
                "model": self.model,
                "holder": self.holder,
                "aws_conn_id": self.aws_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look now and then."""
        store = ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=_ANSWER_LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                body = await asyncio.to_thread(store.read, lock_key(self.model), most_bytes=LOCK_LIMIT_BYTES)
            except SlipwayError as error:
                log.warning("the lock could not be read: %s", error)
                continue
            if body is None or not self._is_holders(body):
                break
        yield TriggerEvent(None)

    def _is_holders(self, body: bytes) -> bool:
        """Return whether the lock still names the holder; what is no lock is for the worker to tell."""
        try:
            return LockOwner.from_bytes(body).release_id == self.holder
        except ValueError:
            return False
