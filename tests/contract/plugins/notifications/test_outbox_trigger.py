"""The trigger of `notification_delivery`: it fires when a notice is due, and asks for nothing where nobody is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.outbox import DEFAULT_RULES_VARIABLE
from slipway.triggers import outbox
from slipway.triggers.outbox import OutboxTrigger, names_somebody
from slipway_core.operations.layout import OUTBOX_PREFIX, outbox_key

NAMES = "model: digits\nnotify:\n  - {on: [promoted], to: ops}\n"
NAMES_NOBODY = "model: digits\ndescription: we notify nobody\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, store: ModelStoreHook) -> None:
    """It looks often, and finds the bucket's name."""
    monkeypatch.setattr(outbox, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(outbox, "AGAIN_S", 3600.0)
    monkeypatch.setenv("AIRFLOW_VAR_SLIPWAY_BUCKET", store.bucket)
    monkeypatch.delenv(DEFAULT_RULES_VARIABLE, raising=False)


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """A folder with a release file that names a receiver."""
    (tmp_path / "digits.yaml").write_text(NAMES)
    return tmp_path


def key(index: int, due: datetime | None = None) -> str:
    """Where a notice waits, due since a minute unless given."""
    return outbox_key(due or datetime.now(UTC) - timedelta(minutes=1), f"{index:032x}")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was listed meanwhile."""
    listed: list[str] = []
    entries = ModelStoreHook.entries

    def count(self: ModelStoreHook, prefix: str, **more: Any) -> Any:
        listed.append(prefix)
        return entries(self, prefix, **more)

    with monkeypatch.context() as patch:
        patch.setattr(ModelStoreHook, "entries", count)
        yield listed


async def fired(events: AsyncIterator[TriggerEvent], limit_s: float) -> str | None:
    """The first notice that the trigger tells of; None: it does not within the limit."""
    try:
        event = await asyncio.wait_for(anext(events), limit_s)
    except TimeoutError:
        return None
    return str(event.payload["first"])


async def test_it_fires_for_what_is_due_and_once_for_each(store: ModelStoreHook, releases: Path) -> None:
    """For the first notice; when that is gone, for the next one."""
    first, second = key(1), key(2)
    store.write(first, b"{}")
    store.write(second, b"{}")
    events = OutboxTrigger(releases_dir=str(releases)).run()
    assert await fired(events, 20) == first
    store.delete(first)
    assert await fired(events, 20) == second
    assert await fired(events, 1) is None


async def test_what_stays_is_told_of_again(
    store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that should have taken it may have been lost."""
    monkeypatch.setattr(outbox, "AGAIN_S", 0.2)
    store.write(key(1), b"{}")
    events = OutboxTrigger(releases_dir=str(releases)).run()
    assert await fired(events, 20) == await fired(events, 20)


async def test_what_is_not_due_and_what_is_no_notice_fires_nothing(
    store: ModelStoreHook, releases: Path
) -> None:
    """A stray before them hides none."""
    store.write(f"{OUTBOX_PREFIX}1-note.txt", b"hello")
    store.write(key(1, datetime.now(UTC) + timedelta(hours=1)), b"{}")
    events = OutboxTrigger(releases_dir=str(releases)).run()
    assert await fired(events, 1) is None
    due = key(2)
    store.write(due, b"{}")
    events = OutboxTrigger(releases_dir=str(releases)).run()
    assert await fired(events, 20) == due


async def test_where_nobody_is_to_be_told_the_store_is_asked_once(
    store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the beginning, for what was left; then every ten minutes. A file that names somebody is noticed at once."""
    (releases / "digits.yaml").write_text(NAMES_NOBODY)
    with counted(monkeypatch) as listed:
        events = OutboxTrigger(releases_dir=str(releases)).run()
        assert await fired(events, 1) is None
        assert listed == [OUTBOX_PREFIX]
    store.write(key(1), b"{}")
    (releases / "digits.yaml").write_text(NAMES)
    events = OutboxTrigger(releases_dir=str(releases)).run()
    assert await fired(events, 20) == store.entries(OUTBOX_PREFIX)[0].key


async def test_a_store_that_is_away_ends_no_trigger(
    store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again until the store answers."""
    store.write(key(1), b"{}")
    answers = iter([OSError("away"), OSError("away")])
    entries = ModelStoreHook.entries

    def away(self: ModelStoreHook, prefix: str, **more: Any) -> Any:
        if (error := next(answers, None)) is not None:
            raise error
        return entries(self, prefix, **more)

    monkeypatch.setattr(ModelStoreHook, "entries", away)
    assert await fired(OutboxTrigger(releases_dir=str(releases)).run(), 20) is not None


def test_it_can_be_made_again_from_what_it_says_of_itself(releases: Path) -> None:
    """The triggerer makes the very same trigger; what it keeps is JSON."""
    path, arguments = OutboxTrigger(releases_dir=str(releases)).serialize()
    assert path == "slipway.triggers.outbox.OutboxTrigger"
    assert OutboxTrigger(**json.loads(json.dumps(arguments))).serialize() == (path, arguments)


def test_who_is_named_is_seen_without_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key `notify` in a file, or a default; a word in a description is none."""
    assert names_somebody(tmp_path) is False
    (tmp_path / "digits.yaml").write_text(NAMES_NOBODY)
    assert names_somebody(tmp_path) is False
    (tmp_path / "other.yaml").write_text(NAMES)
    assert names_somebody(tmp_path) is True
    (tmp_path / "other.yaml").unlink()
    monkeypatch.setenv(DEFAULT_RULES_VARIABLE, '[{"on": ["held"], "to": "ops"}]')
    assert names_somebody(tmp_path) is True
