"""Records that lie in S3 since before a change: they stay readable, byte for byte and state for state.

`tests/support/record/recorded` holds them as they were written then, and `folded` beside it what each folded to. They
are never written anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.record.segment import unpack_segment
from slipway_core.record.state import release_report

SUPPORT = Path(__file__).parents[3] / "support" / "record"
RECORDS = sorted((SUPPORT / "recorded").glob("*.jsonl"))
# What the state has learnt to say since, where it differs from what was kept then.
LATER = {
    "admitted",
    "rejection",
    "rolled_back_by",
    "overrides",
    "held",
    "promoted_for",
    "earlier",
    "landed_at",
    "rollback_started_at",
    "drained",
    "drain_seconds",
    "open_requests",
}
SEGMENTS = sorted((SUPPORT / "recorded").glob("*.jsonl.gz"))
PREFIX = "records/digits/3/"


def stored_in(path: Path) -> dict[str, bytes]:
    """Return the content of each object by its key."""
    if path in SEGMENTS:
        return {f"{PREFIX}{name}": one.content for name, one in unpack_segment(path.read_bytes()).items()}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["key"]: line["content"].encode() for line in lines}


def folded(events: list[Event]) -> Any:
    """Return what the events fold to, as JSON keeps it."""
    state = fold(events)
    told = {"state": asdict(state), "report": release_report(state)}
    return json.loads(json.dumps(told, default=lambda time: time.isoformat()))


@pytest.mark.parametrize("path", [*RECORDS, *SEGMENTS], ids=lambda path: path.name)
def test_a_record_that_was_written_before_folds_as_it_did(path: Path) -> None:
    """Whatever changes here, what lies in S3 keeps its meaning."""
    events = [Event.from_bytes(content, key) for key, content in stored_in(path).items()]
    expected = SUPPORT / "folded" / f"{path.name.partition('.')[0]}.json"
    found = folded(events)
    assert found["state"]["rejection"] is None
    found["state"] = {name: value for name, value in found["state"].items() if name not in LATER}
    assert found == json.loads(expected.read_text())


@pytest.mark.parametrize("path", [*RECORDS, *SEGMENTS], ids=lambda path: path.name)
def test_an_event_is_written_as_it_was_before(path: Path) -> None:
    """The bytes of an object in S3 do not change: not by a later version's fields, nor by a kind that nobody knows."""
    stored = stored_in(path)
    assert stored
    for key, content in stored.items():
        event = Event.from_bytes(content, key)
        assert (event.key, event.to_bytes()) == (key, content)
