"""Notices when a notice waits to be delivered: one small listing now and then, none if nobody is to be notified."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from slipway.blocking_calls import BlockingCalls
from slipway.release_record.outbox import DEFAULT_RULES_VARIABLE
from slipway_core.operations.layout import OUTBOX_PREFIX, outbox_due

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 10.0
# What was left when the last release file that named somebody was changed; and a run that was lost.
IDLE_INTERVAL_S, AGAIN_S = 600.0, 30.0
_ANSWER_LIMIT_S, _LIMIT_S = 10.0, 45.0
_LOOKED_AT = 50
_NAMES_SOMEBODY = re.compile(r"^\s*[\"']?notify[\"']?\s*:", re.MULTILINE)


class OutboxTrigger(BaseEventTrigger):
    """Fires when the first notice of the outbox is due, and again while it stays there.

    :param releases_dir: the folder with the release files.
    :param bucket_variable: the Airflow variable that names the bucket.
    """

    def __init__(
        self, *, releases_dir: str, bucket_variable: str = "slipway_bucket", aws_conn_id: str = "aws_default"
    ) -> None:
        super().__init__()
        self.releases_dir = releases_dir
        self.bucket_variable = bucket_variable
        self.aws_conn_id = aws_conn_id
        self._store: Any = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "releases_dir": self.releases_dir,
                "bucket_variable": self.bucket_variable,
                "aws_conn_id": self.aws_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look now and then, for ever."""
        files, store = (
            BlockingCalls("the folder of release files", _LIMIT_S),
            BlockingCalls("the object store", _LIMIT_S),
        )
        reported, reported_at, looked_at = "", 0.0, float("-inf")
        while True:
            try:
                is_somebody = await files.run(lambda: names_somebody(Path(self.releases_dir)))
                if is_somebody or time.monotonic() - looked_at >= IDLE_INTERVAL_S:
                    looked_at = time.monotonic()
                    first = await store.run(self._first_due)
                    if first and (first != reported or time.monotonic() - reported_at >= AGAIN_S):
                        reported, reported_at = first, time.monotonic()
                        yield TriggerEvent({"first": first})
            except Exception as error:  # a trigger that ends would tell nobody any more
                log.warning("the outbox could not be read: %s: %s", type(error).__name__, error)
            await asyncio.sleep(POLL_INTERVAL_S)

    def _first_due(self) -> str:
        """Return the key of the first notice, if it is due; "" otherwise."""
        from airflow.sdk import Variable

        from slipway.hooks.s3_store import ModelStoreHook

        if self._store is None:
            self._store = ModelStoreHook(
                Variable.get(self.bucket_variable), self.aws_conn_id, answer_limit_s=_ANSWER_LIMIT_S
            )
        now = datetime.now(UTC)
        for entry in self._store.entries(OUTBOX_PREFIX, most=_LOOKED_AT):
            due = outbox_due(entry.key)
            if due is not None:
                return str(entry.key) if due <= now else ""
        return ""


def names_somebody(releases_dir: Path) -> bool:
    """Return whether a release file, or the default for all, may name a receiver; no file is parsed."""
    if os.environ.get(DEFAULT_RULES_VARIABLE, "").strip():
        return True
    return any(
        _NAMES_SOMEBODY.search(path.read_text(encoding="utf-8", errors="replace"))
        for path in sorted(releases_dir.glob("*.yaml"))
    )
