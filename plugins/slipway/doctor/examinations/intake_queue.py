"""The intake queue: it exists, the bucket's events come to it, and what nobody can read has a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import urlsplit

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway.doctor.sqs import asked_queue, queue_client
from slipway.hooks.s3_errors import translated
from slipway_core.doctor.intake_queue import (
    dead_letter_target,
    dead_letters_finding,
    no_dead_letters_finding,
    notification_findings,
)
from slipway_core.doctor.line import Line
from slipway_core.errors import SlipwayError


@EXAMINATIONS.register
class IntakeQueueExamination(Examination):
    """Reads the queue's attributes and the bucket's notifications; it takes no message."""

    name: ClassVar[str] = "intake_queue"
    place: ClassVar[int] = 50
    why: ClassVar[str] = "without it an upload starts nothing until the scheduled scan finds it"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield lines for the queue, its policy, the notification and the dead letters."""
        if not installation.queue_url:
            yield self.failed(
                "queue", "none is configured", remedy="export SLIPWAY_INTAKE_QUEUE_URL=https://sqs.…"
            )
            return
        client = queue_client(installation.aws_conn_id)
        with asked_queue(installation):
            answer = client.get_queue_attributes(QueueUrl=installation.queue_url, AttributeNames=["All"])
        attributes: dict[str, str] = answer.get("Attributes", {})
        name = attributes.get("QueueArn", "").rpartition(":")[2] or "the queue"
        yield self.ok(
            f"queue {name}", f"{attributes.get('ApproximateNumberOfMessages', '?')} messages are waiting"
        )
        yield from self._notification(installation, attributes)
        yield self._dead_letters(installation, client, attributes)

    def _notification(self, installation: Installation, attributes: dict[str, str]) -> Iterator[Line]:
        store = installation.store()
        try:
            with translated(store.uri(""), store.aws_conn_id):
                notification = store.client.get_bucket_notification_configuration(Bucket=store.bucket)
        except SlipwayError as error:
            yield self.unknown(
                "notification of the bucket",
                error.in_short(),
                remedy=f"give the role of {store.aws_conn_id} the action s3:GetBucketNotification",
            )
            return
        host = urlsplit(installation.queue_url).hostname or ""
        is_aws = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
        for finding in notification_findings(notification, attributes, store.bucket, is_aws=is_aws):
            yield self.of_finding(finding)

    def _dead_letters(self, installation: Installation, client: Any, attributes: dict[str, str]) -> Line:
        target = dead_letter_target(attributes)
        if not target:
            return self.of_finding(no_dead_letters_finding())
        name = target.rpartition(":")[2]
        try:
            with asked_queue(installation):
                url = client.get_queue_url(QueueName=name)["QueueUrl"]
                key = "ApproximateNumberOfMessages"
                found = client.get_queue_attributes(QueueUrl=url, AttributeNames=[key])["Attributes"][key]
        except SlipwayError as error:
            return self.of_error("dead-letter queue", error)
        return self.of_finding(dead_letters_finding(name, int(found)))
