"""The task that delivers what waits in the outbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import BaseOperator

from slipway.failures import PlainFailure, airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.page_addresses import model_page, release_page
from slipway.workflows import MODEL_ROLLBACK
from slipway_core.errors import UserError
from slipway_core.operations.layout import (
    OUTBOX_PREFIX,
    UNDELIVERED_PREFIX,
    outbox_due,
    outbox_key,
    undelivered_key,
)
from slipway_core.operations.notices.notice import Notice, OutboxEntry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway_core.operations.notices.retry import Failure

MOST_AT_ONCE = 100
_LISTED = 500


class DeliverNoticesOperator(BaseOperator):
    """Sends each notice that is due to its receivers, and takes it out of the outbox when all have taken it.

    A receiver that fails is tried again, later each time, some nine hours in all; one that no further try can reach
    (a wrong address, refused credentials) is given up at once. Then the notice lies under
    ``operations/notices/undelivered/`` with the reason, and the task fails, so that it is seen. A notice is sent at
    least once: a task that dies in between sends it again, under the same id.

    :param bucket: the bucket (templated).
    :returns: how many notices were delivered to all, put off and given up.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(self, *, bucket: str, aws_conn_id: str = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> dict[str, int]:
        """Deliver what is due.

        :raises PlainFailure: a notice was given up.
        """
        from slipway.notifiers.delivery import deliver

        with airflow_failures():
            store = ModelStoreHook(self.bucket, self.aws_conn_id)
            entries = self._due(store)
            failed = deliver(
                delivery
                for key, entry in entries.items()
                for delivery in _deliveries(key, entry, self.bucket)
            )
            given_up: list[str] = []
            counts = {"delivered": 0, "put_off": 0, "given_up": 0}
            for key, entry in entries.items():
                failures = {to: reason for (name, to), reason in failed.items() if name == key}
                what = _settle(store, key, entry, failures)
                counts[what] += 1
                if what == "given_up":
                    reasons = {to: failure.reason for to, failure in failures.items()}
                    given_up.append(f"{entry.notice.event} of {entry.notice.model}: {reasons}")
        self.log.info("%s", counts)
        if given_up:
            raise PlainFailure(
                f"notices were not delivered and are stored below {store.uri(UNDELIVERED_PREFIX)}: "
                f"{'; '.join(given_up)}"
            )
        return counts

    def _due(self, store: ModelStoreHook) -> dict[str, OutboxEntry]:
        """Return the entries that are due, by key; invalid ones are set aside."""
        now, found = datetime.now(UTC), dict[str, OutboxEntry]()
        for one in store.entries(OUTBOX_PREFIX, most=_LISTED):
            due = outbox_due(one.key)
            if due is None:
                self.log.warning("%r is not a notice and is left alone", one.key)
                continue
            if due > now or len(found) >= MOST_AT_ONCE:
                break
            content = store.read(one.key, most_bytes=OutboxEntry.limit_bytes)
            if content is None:
                continue
            try:
                found[one.key] = OutboxEntry.from_bytes(content, store.uri(one.key))
            except UserError as error:
                self.log.warning("%s", error)
                store.write(f"{UNDELIVERED_PREFIX}{one.key.removeprefix(OUTBOX_PREFIX)}", content)
                store.delete(one.key)
        # Keys have seconds only.
        return dict(sorted(found.items(), key=lambda one: (outbox_due(one[0]), one[1].notice.at)))


def _deliveries(key: str, entry: OutboxEntry, bucket: str) -> list[Any]:
    """Return the messages to an entry's receivers."""
    from slipway.notifiers.delivery import Delivery
    from slipway_core.operations.notices.message import message_of

    message = message_of(
        entry.notice,
        _links(entry.notice, bucket),
        is_rollback_by_hand=entry.notice.dag_id == MODEL_ROLLBACK,
    )
    return [Delivery(key, to, message) for to in entry.to]


def _links(notice: Notice, bucket: str) -> Mapping[str, str]:
    """Return where the version's page, the run, its reports and its record are."""
    links: dict[str, str] = {}
    page = (
        release_page(notice.model, notice.version) if notice.version is not None else model_page(notice.model)
    )
    # Without a base_url it is a path, which no message can lead to.
    if page.startswith("http"):
        links["Page"] = page
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    if base and notice.dag_id and notice.release_id:
        links["Run"] = f"{base}/dags/{quote(notice.dag_id, safe='')}/runs/{quote(notice.release_id, safe='')}"
    if notice.evidence:
        links["Evidence"] = quote(notice.evidence, safe=":/._-")
    if notice.version is not None:
        links["Record"] = f"s3://{bucket}/records/{quote(notice.model, safe='')}/{notice.version}/"
    return links


def _settle(store: ModelStoreHook, key: str, entry: OutboxEntry, failures: Mapping[str, Failure]) -> str:
    """Bring the outbox up to date after an entry was sent; return what became of it."""
    from slipway_core.operations.notices.retry import after_sending, due_again

    sent, what = after_sending(entry, failures), "delivered"
    given_up = sent.refused
    if sent.left is not None:
        longest_s = max(failures[to].retry_after_s for to in sent.left.to)
        again = due_again(sent.left, datetime.now(UTC), longest_s)
        if again is not None:
            what = "put_off"
            store.write(
                outbox_key(again, entry.notice.id), sent.left.to_bytes(), content_type="application/json"
            )
        else:
            given_up = _together(sent.left, given_up)
    if given_up is not None:
        what = "given_up"
        where = undelivered_key(entry.notice.id)
        before = store.read(where, most_bytes=OutboxEntry.limit_bytes)
        if before is not None:
            given_up = _together(given_up, OutboxEntry.from_bytes(before, store.uri(where)))
        store.write(where, given_up.to_bytes(), content_type="application/json")
    # Last: who dies before sends it again.
    store.delete(key)
    return what


def _together(entry: OutboxEntry, other: OutboxEntry | None) -> OutboxEntry:
    """Return an entry with the receivers of both: some were given up before others."""
    if other is None:
        return entry
    to = tuple(dict.fromkeys((*other.to, *entry.to)))
    return entry.model_copy(update={"to": to, "failures": {**other.failures, **entry.failures}})
