"""What waits to be sent: entries of the outbox, the messages made of them, and the default for all models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.operations.notices.message import TEXT_LIMIT, TITLE_LIMIT, message_of
from slipway_core.operations.notices.notice import Fact, Notice, OutboxEntry
from slipway_core.operations.notices.routing import parse_rules

_ENTRY = OutboxEntry(
    notice=Notice(
        event="rolled_back",
        model="digits",
        version=3,
        at=datetime(2026, 11, 22, 11, tzinfo=UTC),
        reason="more errors than stable <!channel> [x](https://y)",
        facts=(Fact(name="weight", value="20 %"), Fact(name="errors", value="5 of 100")),
        release_id="digits-3",
        dag_id="model_release",
        evidence="s3://slipway/models/digits/3/evidence/",
        about="weight 20",
    ),
    to=("slack_default", "mail"),
    attempts=2,
    failures={"mail": "HTTP 500"},
)
_ENTRIES: tuple[dict[str, Any], ...] = (_ENTRY.model_dump(mode="json"),)
_RULES: tuple[dict[str, Any], ...] = ({"on": ["rolled_back", "held"], "to": "slack_default"},)


def _read_entry(content: bytes) -> None:
    entry = OutboxEntry.from_bytes(content, "an entry")
    message = message_of(entry.notice, {"Run": "https://airflow.example/dags/a/runs/b"})
    if len(message.title) > TITLE_LIMIT or len(message.text) > TEXT_LIMIT:
        raise BrokenPromiseError("a message that no phone shows whole")
    if set("<>`\r\x1b") & set(message.title + message.text) or "](" in message.text:
        raise BrokenPromiseError("a message with markup")


def _read_rules(content: bytes) -> None:
    parse_rules(f"[{content.decode('utf-8', 'replace')}]", "the default")


TARGETS = (
    Target(
        "notice",
        lambda: [_ENTRY.to_bytes()],
        lambda rng, _: mutated_json(rng, _ENTRIES),
        _read_entry,
    ),
    Target(
        "notification_default",
        lambda: [json_bytes(tree) for tree in _RULES],
        lambda rng, _: mutated_json(rng, _RULES),
        _read_rules,
    ),
)
