"""A receiver of every event, and the notices in the outbox."""

from __future__ import annotations

import json

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.outbox import DEFAULT_RULES_VARIABLE
from slipway_core.operations.layout import OUTBOX_PREFIX
from slipway_core.operations.notices.notice import Notice, OutboxEntry
from slipway_core.spec.notify import NOTICE_EVENTS


def notify_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name one receiver of every event, for all models."""
    monkeypatch.setenv(DEFAULT_RULES_VARIABLE, json.dumps([{"on": NOTICE_EVENTS, "to": "ops"}]))


def notices_in(store: ModelStoreHook) -> list[Notice]:
    """Return the notices in the outbox, oldest first."""
    keys = [entry.key for entry in store.entries(OUTBOX_PREFIX)]
    notices = [OutboxEntry.from_bytes(store.require(key, remedy=""), key).notice for key in keys]
    return sorted(notices, key=lambda notice: notice.at)


def facts(notice: Notice) -> dict[str, str]:
    """Return a notice's facts by name."""
    return {fact.name: fact.value for fact in notice.facts}
