"""The outbox's way to receivers on this machine: at least once, none waits for another, and what fails is seen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from standardwebhooks import Webhook

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.notices import DeliverNoticesOperator
from slipway.release_record.outbox import Outbox
from slipway_core.errors import StoreUnavailableError
from slipway_core.operations.layout import OUTBOX_PREFIX, UNDELIVERED_PREFIX, outbox_due, outbox_key
from slipway_core.operations.notices.notice import Notice, OutboxEntry
from slipway_core.operations.notices.retry import PAUSES_S
from slipway_core.spec.notify import NotifyRule
from tests.support.notifications.receivers import HttpReceiver, http_receiver
from tests.support.stalled.deaf import deaf_server

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receivers:
    """Three receivers: one that takes messages, one that fails, one that hangs."""

    def __init__(self, good: HttpReceiver, failing: HttpReceiver) -> None:
        self.good, self.failing = good, failing


@pytest.fixture
def receivers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receivers]:
    """The receivers, each with its connection; a message may take two seconds."""
    monkeypatch.setattr("slipway.notifiers.notifier.LIMIT_S", 2.0)
    with ExitStack() as stack:
        good, failing = stack.enter_context(http_receiver()), stack.enter_context(http_receiver(500))
        addresses = {
            "good": good.address,
            "failing": failing.address,
            "hanging": f"http://{stack.enter_context(deaf_server())}",
        }
        for name, address in addresses.items():
            connection = {"conn_type": "http", "host": f"{address}/hook", "password": KEY}
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        yield Receivers(good, failing)


def notice(event: str = "promoted", **changed: Any) -> Notice:
    """A notice of a release."""
    said = {"event": event, "model": "digits", "version": 3, "at": datetime.now(UTC), "release_id": "run-1"}
    return Notice.model_validate(said | {"dag_id": "model_release"} | changed)


def tell(store: ModelStoreHook, told: Notice, *to: str) -> None:
    """Put a notice into the outbox."""
    Outbox(lambda: store, [NotifyRule(on=(told.event,), to=one) for one in to]).tell(told)


def deliver(store: ModelStoreHook) -> dict[str, int]:
    """Run the task once."""
    return DeliverNoticesOperator(task_id="deliver", bucket=store.bucket).execute({})  # type: ignore[typeddict-item]


def waiting(store: ModelStoreHook, prefix: str = OUTBOX_PREFIX) -> dict[str, OutboxEntry]:
    """What lies below a prefix, by key."""
    keys = [entry.key for entry in store.entries(prefix)]
    return {key: OutboxEntry.from_bytes(store.require(key, remedy=""), key) for key in keys}


def put(store: ModelStoreHook, entry: OutboxEntry, due: datetime | None = None) -> None:
    """Put an entry into the outbox as an earlier run has left it."""
    store.write(outbox_key(due or datetime.now(UTC), entry.notice.id), entry.to_bytes())


def test_a_notice_is_sent_and_leaves_the_outbox(store: ModelStoreHook, receivers: Receivers) -> None:
    """It arrives signed, with its name and a link to its record."""
    tell(store, notice(), "good")
    assert deliver(store) == {"delivered": 1, "put_off": 0, "given_up": 0}
    (request,) = receivers.good.received
    data = Webhook(KEY).verify(request.body, request.headers)["data"]
    assert data["event"] == "promoted"
    assert data["links"]["Record"] == f"s3://{store.bucket}/records/digits/3/"
    assert waiting(store) == {}


def test_a_notice_leads_to_the_versions_page(
    store: ModelStoreHook, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person can open comes first; without Airflow's own address there is no such link."""
    tell(store, notice(), "good")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    deliver(store)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "")
    tell(store, notice(release_id="run-2"), "good")
    deliver(store)
    with_page, without = (json.loads(one.body)["data"]["links"] for one in receivers.good.received)
    assert next(iter(with_page.items())) == (
        "Page",
        "https://airflow.example.org/slipway/models/digits/versions/3",
    )
    assert "Page" not in without


def test_a_receiver_that_hangs_and_one_that_fails_keep_nobody_waiting(
    store: ModelStoreHook, receivers: Receivers
) -> None:
    """The good one has all three notices within the limit of one message; the others get theirs again later."""
    for event in ("started", "held", "promoted"):
        tell(store, notice(event), "hanging", "failing", "good")
    began = time.monotonic()
    assert deliver(store) == {"delivered": 0, "put_off": 3, "given_up": 0}
    assert time.monotonic() - began < 20
    assert [request.json["data"]["event"] for request in receivers.good.received] == [
        "started",
        "held",
        "promoted",
    ]
    assert len(receivers.failing.received) == 3
    for key, entry in waiting(store).items():
        due = outbox_due(key)
        assert entry.to == ("hanging", "failing")
        assert entry.attempts == 1
        assert "HTTP 500" in entry.failures["failing"]
        assert due is not None
        assert due > datetime.now(UTC)


def test_what_is_put_off_is_sent_under_the_same_name_to_those_who_lack_it(
    store: ModelStoreHook, receivers: Receivers
) -> None:
    """Who has taken it is not told again; who has not can know it by its id."""
    entry = OutboxEntry(notice=notice(), to=("failing",), attempts=2, failures={"failing": "HTTP 500"})
    put(store, entry)
    receivers.failing.status = 200
    assert deliver(store)["delivered"] == 1
    assert receivers.good.received == []
    assert [request.headers["webhook-id"] for request in receivers.failing.received] == [entry.notice.id]


def test_what_is_not_due_is_left_alone(store: ModelStoreHook, receivers: Receivers) -> None:
    """A receiver that has failed has its pause."""
    put(store, OutboxEntry(notice=notice(), to=("good",)), datetime.now(UTC) + timedelta(minutes=1))
    assert deliver(store) == {"delivered": 0, "put_off": 0, "given_up": 0}
    assert receivers.good.received == []


def test_what_fails_to_the_end_is_kept_with_the_reason_and_fails_the_run(
    store: ModelStoreHook, receivers: Receivers
) -> None:
    """So that a person sees it; the good receiver of the same run has its notice all the same."""
    put(store, OutboxEntry(notice=notice(), to=("failing",), attempts=len(PAUSES_S)))
    tell(store, notice("started"), "good")
    with pytest.raises(AirflowFailException, match="HTTP 500") as failed:
        deliver(store)
    assert KEY not in str(failed.value)
    assert waiting(store) == {}
    (kept,) = waiting(store, UNDELIVERED_PREFIX).values()
    assert (kept.to, kept.attempts) == (("failing",), len(PAUSES_S) + 1)
    assert "HTTP 500" in kept.failures["failing"]
    assert len(receivers.good.received) == 1


def test_a_connection_that_nobody_has_made_is_tried_again(
    store: ModelStoreHook, receivers: Receivers
) -> None:
    """A person may make it meanwhile; the reason names it."""
    tell(store, notice(), "not_made_yet", "good")
    assert deliver(store)["put_off"] == 1
    (entry,) = waiting(store).values()
    assert "not_made_yet" in entry.failures["not_made_yet"]
    assert len(receivers.good.received) == 1


def test_what_is_no_notice_holds_up_none(store: ModelStoreHook, receivers: Receivers) -> None:
    """A stray is left alone, an entry that cannot be read is put aside."""
    broken = outbox_key(datetime(2026, 1, 1, tzinfo=UTC), "0" * 32)
    store.write(broken, b"{}")
    store.write(f"{OUTBOX_PREFIX}1-note.txt", b"hello")
    tell(store, notice(), "good")
    assert deliver(store)["delivered"] == 1
    assert [entry.key for entry in store.entries(OUTBOX_PREFIX)] == [f"{OUTBOX_PREFIX}1-note.txt"]
    assert store.exists(f"{UNDELIVERED_PREFIX}{broken.removeprefix(OUTBOX_PREFIX)}")


def test_a_task_that_dies_after_sending_sends_again_under_the_same_name(
    store: ModelStoreHook, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least once: the receiver is told twice, and can tell that it was."""
    tell(store, notice(), "good")
    with monkeypatch.context() as dying:

        def killed(*_: object) -> None:
            raise StoreUnavailableError("the store went away")

        dying.setattr(ModelStoreHook, "delete", killed)
        with pytest.raises(StoreUnavailableError):
            deliver(store)
    assert deliver(store)["delivered"] == 1
    names = [request.headers["webhook-id"] for request in receivers.good.received]
    assert len(names) == 2
    assert len(set(names)) == 1
