"""From the body of a message to S3's own events: what carries them is taken off, layer by layer.

Known are S3's notification (and that of MinIO and Ceph), EventBridge's event of S3 and of CloudTrail, what SNS puts
around either unless its subscription has raw delivery, records of SQS and SNS as Lambda is given them, and lists of all
of these. Whoever may write to the queue can put anything there: depth, size and number are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from slipway_core.errors import UserError

BODY_LIMIT = 1024 * 1024
"""Characters of a body that is read; a message of SQS is no longer."""
RECORDS_LIMIT = 1000
"""Events of one body that are looked at; S3 puts one into each message."""
LAYERS_LIMIT = 6
"""Carriers around one event; EventBridge, SNS and SQS together are three."""

_TEXT_SHOWN = 120
_WRITES = frozenset({"PutObject", "CopyObject", "CompleteMultipartUpload", "PostObject"})
_CLOUDTRAIL = "AWS API Call via CloudTrail"
_ABOUT_SUBSCRIPTIONS = ("SubscriptionConfirmation", "UnsubscribeConfirmation")


@dataclass(frozen=True)
class ObjectCreated:
    """An object was written. `key` is not URL-quoted; `bucket` is None if the event names none."""

    bucket: str | None
    key: str


@dataclass
class Opened:
    """What a body held.

    :param created: the objects that were written, in order.
    :param ignored: in words, what can be read and names no new object.
    :param unreadable: in words, what cannot be read and may have named any object.
    :param beyond: how many events were not looked at.
    """

    created: list[ObjectCreated] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    beyond: int = 0
    _seen: int = 0

    def take_body(self, body: str, layer: int = 0) -> None:
        """Take what a text holds.

        :raises UserError: the text is too long, or no JSON.
        """
        if len(body) > BODY_LIMIT:
            raise malformed(f"{len(body)} characters")
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise malformed(f"text that is not JSON ({shown_briefly(str(error))})") from error
        self._take(value, layer)

    def _take(self, value: Any, layer: int) -> None:
        """Take a JSON value: an event, a carrier, or a list of them."""
        if layer > LAYERS_LIMIT:
            raise malformed(f"more than {LAYERS_LIMIT} carriers around one event")
        if isinstance(value, list) and value:
            self._take_each(value, layer + 1)
        elif not isinstance(value, Mapping):
            raise malformed("an empty list" if value == [] else f"a JSON {type(value).__name__}")
        elif value.get("Event") == "s3:TestEvent":
            return
        elif value.get("Type") in _ABOUT_SUBSCRIPTIONS:
            self.ignored.append(f"SNS asks about a subscription of the queue ({value['Type']})")
        elif isinstance(value.get("Records"), list):
            self._take_each(value["Records"], layer + 1)
        elif value.get("Type") == "Notification" and isinstance(value.get("Message"), str):
            self.take_body(value["Message"], layer + 1)
        elif isinstance(value.get("Sns"), Mapping) and isinstance(value["Sns"].get("Message"), str):
            self.take_body(value["Sns"]["Message"], layer + 1)
        elif value.get("eventSource") == "aws:sqs" and isinstance(value.get("body"), str):
            self.take_body(value["body"], layer + 1)
        elif isinstance(value.get("detail-type"), str) and isinstance(value.get("detail"), Mapping):
            self._take_event_bridge(value["detail-type"], value["detail"])
        elif isinstance(value.get("eventName"), str):
            self._take_record(value)
        else:
            raise malformed(
                "an object without `Records`, `detail`, `Message` or `eventName`"
                if layer == 0
                else "a record that is not an event"
            )

    def _take_each(self, values: list[Any], layer: int) -> None:
        """Take the elements of a list: one that cannot be read does not hide the others."""
        for number, value in enumerate(values):
            if self._seen >= RECORDS_LIMIT:
                self.beyond += len(values) - number
                return
            self._seen += 1
            try:
                if not isinstance(value, Mapping):
                    raise UserError("a record of the event is not an object", found=type(value).__name__)
                self._take(value, layer)
            except UserError as error:
                self.unreadable.append(str(error))

    def _take_record(self, record: Mapping[str, Any]) -> None:
        """Take a record of S3's own notification, whose key is URL-quoted."""
        name = record["eventName"]
        if not name.removeprefix("s3:").startswith("ObjectCreated"):
            self.ignored.append(f"the event {shown_briefly(repr(name))} is not the arrival of an object")
            return
        described = record.get("s3")
        self._created(described if isinstance(described, Mapping) else {}, is_quoted=True)

    def _take_event_bridge(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Take EventBridge's event of S3, or of CloudTrail; neither quotes keys."""
        if kind == "Object Created":
            self._created(detail, is_quoted=False)
        elif kind == _CLOUDTRAIL and detail.get("eventName") in _WRITES:
            asked = detail.get("requestParameters")
            asked = asked if isinstance(asked, Mapping) else {}
            self._created(
                {"bucket": {"name": asked.get("bucketName")}, "object": {"key": asked.get("key")}},
                is_quoted=False,
            )
        else:
            self.ignored.append(f"the event {shown_briefly(repr(kind))} is not the arrival of an object")

    def _created(self, described: Mapping[str, Any], *, is_quoted: bool) -> None:
        bucket, key = _text(described, "bucket", "name"), _text(described, "object", "key")
        if key is None:
            raise UserError("a record of the event has no object key", expected="text at object.key")
        self.created.append(ObjectCreated(bucket, unquote_plus(key, errors="replace") if is_quoted else key))


def opened(body: str) -> Opened:
    """Return what the body of a message holds.

    :raises UserError: nothing of it can be read.
    """
    found = Opened()
    found.take_body(body)
    return found


def malformed(found: str) -> UserError:
    """Return the error for a body, or a part of one, that is no event."""
    return UserError(
        "a message in the intake queue is not an S3 event notification",
        expected="S3's notification, directly or by SNS, or EventBridge's event of S3",
        found=found,
        remedy="Check what writes to the queue, and in which form. All of incoming/ is looked at instead.",
    )


def shown_briefly(text: str) -> str:
    """Return a text, cut where it is long."""
    return text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 1]}…"


def _text(holder: Mapping[str, Any], first: str, second: str) -> str | None:
    inner = holder.get(first)
    value = inner.get(second) if isinstance(inner, Mapping) else None
    return value if isinstance(value, str) else None
