"""The outbox over a real S3 protocol: one small object for each notice, and nobody waits for the store."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_context import make_outbox
from slipway.release_record.outbox import DEFAULT_RULES_VARIABLE, Outbox, rules_of
from slipway_core.operations.layout import OUTBOX_PREFIX, outbox_due
from slipway_core.operations.notices.notice import Notice, OutboxEntry
from slipway_core.spec.notify import NotifyRule
from slipway_core.spec.release_file import parse_release_spec
from tests.support.stalled.deaf import deaf_server
from tests.support.store.connections import aws_connection

RULES = (NotifyRule(on=("promoted", "rolled_back"), to="ops"), NotifyRule(on=("promoted",), to="mail"))
NOTICE = Notice(event="promoted", model="digits", version=3, at=datetime.now(UTC), release_id="run-1")
SPEC = "model: digits\nsource: {{format: onnx}}\n{more}"


def told(store: ModelStoreHook) -> list[OutboxEntry]:
    """What lies in the outbox."""
    return [
        OutboxEntry.from_bytes(store.require(entry.key, remedy=""), entry.key)
        for entry in store.entries(OUTBOX_PREFIX)
    ]


def test_a_notice_is_one_object_that_names_its_receivers(store: ModelStoreHook) -> None:
    """Two receivers of one event are told by one object, which is due at once."""
    Outbox(lambda: store, RULES).tell(NOTICE)
    assert told(store) == [OutboxEntry(notice=NOTICE, to=("ops", "mail"))]
    due = outbox_due(store.entries(OUTBOX_PREFIX)[0].key)
    assert due is not None
    assert due <= datetime.now(UTC)


def test_an_event_that_nobody_wants_makes_no_request(store: ModelStoreHook) -> None:
    """Where no line names the event, not even a client is made."""

    def never() -> ModelStoreHook:
        raise AssertionError("nobody is to be told")

    Outbox(never, RULES).tell(NOTICE.model_copy(update={"event": "started"}))
    Outbox(never, ()).tell(NOTICE)
    assert told(store) == []


def test_a_release_file_that_says_nothing_goes_by_the_default(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment variable counts where the release file has no `notify`, and only there."""
    monkeypatch.setenv(DEFAULT_RULES_VARIABLE, '[{"on": ["promoted"], "to": "everybody"}]')
    silent = parse_release_spec(SPEC.format(more=""), "digits.yaml")
    make_outbox(store.bucket, silent, "aws_default").tell(NOTICE)
    assert [entry.to for entry in told(store)] == [("everybody",)]
    assert rules_of(parse_release_spec(SPEC.format(more="notify: []"), "digits.yaml")) == ()


def test_a_default_that_cannot_be_read_tells_nobody_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the variable."""
    monkeypatch.setenv(DEFAULT_RULES_VARIABLE, "slack_default")
    assert rules_of(parse_release_spec(SPEC.format(more=""), "digits.yaml")) == ()
    assert DEFAULT_RULES_VARIABLE in caplog.text


def test_a_store_that_is_away_is_logged_and_raises_nothing(
    cut_off_store: ModelStoreHook, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is told; the step goes on."""
    Outbox(lambda: cut_off_store, RULES).tell(NOTICE)
    assert "could not be put into the outbox" in caplog.text


def test_a_store_that_hangs_costs_a_step_no_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that accepts and never answers is left behind."""
    with deaf_server() as address:
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(f"http://{address}"))
        outbox = Outbox(lambda: ModelStoreHook("slipway", answer_limit_s=60), RULES)
        began = time.monotonic()
        outbox.tell(NOTICE, limit_s=1.0)
        assert time.monotonic() - began < 45
    assert "could not be put into the outbox within 1 s" in caplog.text
