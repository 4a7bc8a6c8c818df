"""What landed in S3 and was never released."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from include.model_release.errors import SlipwayError
from include.model_release.intake import (
    IncomingVersion,
    missing_releases,
    parse_incoming_key,
    parse_messages,
    parse_ready,
    run_id_for,
)
from include.model_release.record import parse_event_key
from slipway.failures import airflow_failures
from slipway.hooks.store import ModelStoreHook

if TYPE_CHECKING:
    from airflow.sdk import Context


class FindNewVersionsOperator(BaseOperator):
    """Lists the versions whose release shall start by itself.

    The events that started the run are hints; the sweep over ``incoming/`` is what makes it sure.

    :param bucket: the bucket (templated).
    :return: one mapping a version, as `TriggerDagRunOperator.expand_kwargs` takes it.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(self, *, bucket: str, aws_conn_id: str = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Reads the events, sweeps the bucket, leaves out what was started before."""
        with airflow_failures():
            store = ModelStoreHook(self.bucket, self.aws_conn_id)
            hints = parse_messages(_bodies(context), self.bucket)
            for reason in hints.ignored:
                self.log.warning("ignored: %s", reason)
            hinted = set(hints.versions)
            new = missing_releases(self._swept(store), self._started(store))
            for incoming in sorted(hinted - set(new)):
                self.log.info("%s starts nothing: started before, by hand, or older than a release", incoming)
            return [
                {
                    "trigger_run_id": run_id_for(incoming.model, incoming.version),
                    "conf": {
                        "model": incoming.model,
                        "version": incoming.version,
                        "reason": "an event told of it" if incoming in hinted else "the sweep found it",
                    },
                }
                for incoming in new
            ]

    def _swept(self, store: ModelStoreHook) -> Iterable[IncomingVersion]:
        """The versions in ``incoming/`` whose ``ready.json`` says that they start by themselves."""
        for entry in store.entries("incoming/"):
            if not entry.key.endswith("/ready.json"):
                continue
            try:
                incoming = parse_incoming_key(entry.key)
                ready = parse_ready(store.read(entry.key) or b"", incoming)
            except SlipwayError as error:
                self.log.warning("ignored: %s", error)
                continue
            if ready.start == "automatic":
                yield incoming

    @staticmethod
    def _started(store: ModelStoreHook) -> Iterable[IncomingVersion]:
        """The versions that have a record, whatever became of them."""
        for entry in store.entries("records/"):
            if not entry.key.endswith("/active.json"):
                model, version, _, _ = parse_event_key(entry.key)
                yield IncomingVersion(model, version)


def _bodies(context: Context) -> Iterable[str]:
    """The bodies of the queue's messages behind this run; none where the schedule started it."""
    events: Mapping[Any, Any] = context.get("triggering_asset_events") or {}
    for asset_events in events.values():
        for event in asset_events:
            payload = (event.extra or {}).get("payload") or {}
            for message in payload.get("message_batch", ()):
                yield str(message.get("Body", ""))
