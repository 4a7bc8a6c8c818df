from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from slipway_core.errors import UserError
from slipway_core.operations.layout import (
    OUTBOX_PREFIX,
    gc_prefix,
    outbox_due,
    outbox_key,
    undelivered_key,
)
from slipway_core.operations.notices.notice import Fact, Notice, OutboxEntry
from slipway_core.operations.notices.routing import parse_rules, receivers_of
from slipway_core.spec.notify import NotifyRule
from slipway_core.spec.release_file import SpecError, parse_release_spec

AT = datetime(2026, 11, 22, 11, 0, 0, 999_000, tzinfo=UTC)
SPEC = "model: digits\nsource: {{format: onnx}}\n{more}"


def notice(**changed: object) -> Notice:
    """A notice of a rollback, with what a test changes in it."""
    said = {"event": "rolled_back", "model": "digits", "version": 3, "at": AT, "release_id": "manual-1"}
    return Notice.model_validate(said | changed)


def test_the_same_thing_told_again_has_the_same_id() -> None:
    """A task that is run again tells the same thing later, and in other words: receivers know it by its id."""
    again = notice(at=AT + timedelta(minutes=5), reason="said differently")
    assert notice().id == again.id


@pytest.mark.parametrize(
    "changed",
    [
        {"event": "promoted"},
        {"model": "other"},
        {"version": 4},
        {"release_id": "manual-2"},
        {"about": "weight 20"},
        {"dag_id": "model_revalidation"},
    ],
)
def test_another_thing_has_another_id(changed: dict[str, object]) -> None:
    """Event, model, version, run, DAG and what it is about tell two notices apart."""
    assert notice().id != notice(**changed).id


def test_long_texts_are_shortened_and_keep_nobody_from_being_told() -> None:
    """A reason of a megabyte makes a notice all the same, and one that fits its limit."""
    long = notice(reason="x" * 2**20, facts=(Fact(name="n" * 500, value="v" * 500),))
    assert len(long.reason) == 600
    assert long.reason.endswith("…")
    assert len(long.to_bytes()) < Notice.limit_bytes


def test_an_entry_of_the_outbox_survives_its_way_through_the_bucket() -> None:
    """What is read is what was written."""
    entry = OutboxEntry(notice=notice(), to=("slack_default",), attempts=2, failures={"slack_default": "500"})
    assert OutboxEntry.from_bytes(entry.to_bytes(), "an entry") == entry


def test_keys_of_the_outbox_sort_by_the_time_at_which_they_are_due() -> None:
    """So the first key of a listing is the next one."""
    first, second = outbox_key(AT, "f" * 32), outbox_key(AT + timedelta(seconds=30), "0" * 32)
    assert first < second
    assert outbox_due(first) == AT.replace(microsecond=0)


@pytest.mark.parametrize(
    "key",
    [
        OUTBOX_PREFIX,
        f"{OUTBOX_PREFIX}20261399T110000Z-{'0' * 32}.json",
        f"{OUTBOX_PREFIX}note.txt",
        undelivered_key("0" * 32),
        gc_prefix("run"),
    ],
)
def test_a_stray_in_the_outbox_is_never_due(key: str) -> None:
    """What others put there is no notice."""
    assert outbox_due(key) is None


def test_a_receiver_is_told_once_however_many_lines_name_it() -> None:
    """Two lines for one receiver make one message."""
    rules = [
        NotifyRule(on=("refused", "rolled_back"), to="slack_default"),
        NotifyRule(on=("rolled_back",), to="slack_default"),
        NotifyRule(on=("rolled_back",), to="pager"),
        NotifyRule(on=("promoted",), to="mail"),
    ]
    assert receivers_of(rules, "rolled_back") == ("slack_default", "pager")
    assert receivers_of(rules, "started") == ()


def test_the_release_file_names_receivers_with_a_plain_on() -> None:
    """`on` is the key that people write; in YAML 1.1 it would be a truth value."""
    spec = parse_release_spec(
        SPEC.format(more="notify:\n  - {on: [rolled_back, drift_found], to: slack_default}\n"), "digits.yaml"
    )
    assert spec.notify == (NotifyRule(on=("rolled_back", "drift_found"), to="slack_default"),)


def test_a_release_file_without_notify_leaves_it_to_the_default() -> None:
    """An empty list says that nobody is told; nothing at all says nothing."""
    assert parse_release_spec(SPEC.format(more=""), "digits.yaml").notify is None
    assert parse_release_spec(SPEC.format(more="notify: []\n"), "digits.yaml").notify == ()


@dataclass(frozen=True)
class Wrong:
    more: str
    found: str


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong("notify: [{on: [rolledback], to: a}]\n", "rolledback"),
        Wrong("notify: [{on: [], to: a}]\n", "on"),
        Wrong("notify: [{on: [promoted], to: 'https://hooks.slack.com/services/T/B/x'}]\n", "to"),
    ],
    ids=lambda wrong: wrong.more[:40],
)
def test_a_wrong_line_is_refused_and_names_its_place(wrong: Wrong) -> None:
    """An unknown event, no event at all, and an address in the place of a connection."""
    with pytest.raises(SpecError, match=wrong.found):
        parse_release_spec(SPEC.format(more=wrong.more), "digits.yaml")


def test_the_default_for_all_models_is_json() -> None:
    """The environment variable holds what the release file's section would."""
    assert parse_rules('[{"on": ["held"], "to": "ops"}]', "SLIPWAY_NOTIFY") == (
        NotifyRule(on=("held",), to="ops"),
    )
    assert parse_rules(" ", "SLIPWAY_NOTIFY") == ()
    with pytest.raises(UserError, match="SLIPWAY_NOTIFY"):
        parse_rules("slack_default", "SLIPWAY_NOTIFY")
