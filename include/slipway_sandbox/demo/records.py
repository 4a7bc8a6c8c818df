"""A release's record as it lies in S3: read again and again, but each event fetched once."""

from __future__ import annotations

from typing import Any

from slipway_core.record.events import Event


class Records:
    """The records under `records/` of `bucket`; `s3` is a boto3 client, whose errors pass through."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._events: dict[str, Event] = {}  # events never change, so what was read once is good forever

    def events(self, model: str, version: int) -> list[Event]:
        """Return all events of the version so far, by sequence number; empty if there is no record yet.

        RecordError: an object under the version's record is no event.
        """
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"records/{model}/{version}/"
        )
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return sorted((self._event(key) for key in keys), key=lambda event: event.seq)

    def _event(self, key: str) -> Event:
        if key not in self._events:
            body = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            self._events[key] = Event.from_bytes(body, source=key)
        return self._events[key]
