"""The event of an upload: an object of doctor's own below `incoming/`, and its message in the queue."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation, Permission
from slipway.doctor.sqs import asked_queue, queue_client
from slipway_core.doctor.line import Line

COMES_WITHIN_S = 30.0
_WAIT_S, _AT_ONCE = 2, 10


@EXAMINATIONS.register
class UploadEventExamination(Examination):
    """Writes an object that is no version, so that its event starts nothing, and looks for the message.

    Messages of others are not hidden from those who wait for them.
    """

    name: ClassVar[str] = "upload_event"
    place: ClassVar[int] = 55
    why: ClassVar[str] = "without it an upload starts nothing until the scheduled scan finds it"
    limit_s: ClassVar[float] = 90.0
    needs: ClassVar[Permission | None] = Permission.EVENT

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield one line: whether the event has come."""
        what, name = "event of an upload", f"doctor-{secrets.token_hex(8)}"
        key = f"incoming/slipway-doctor/{name}/ready.json"
        if not installation.queue_url:
            yield self.failed(
                what, "no queue is configured", remedy="export SLIPWAY_INTAKE_QUEUE_URL=https://sqs.…"
            )
            return
        store = installation.store()
        client = queue_client(installation.aws_conn_id)
        try:
            began = time.monotonic()
            store.write(key, b"{}", content_type="application/json")
            with asked_queue(installation):
                has_come = _comes(client, installation.queue_url, name)
            took_s = time.monotonic() - began
        finally:
            store.delete(key)
        if has_come:
            yield self.ok(what, f"its message came after {took_s:.0f} s")
            return
        yield self.unknown(
            what,
            f"its message was not seen here within {COMES_WITHIN_S:.0f} s; model_intake takes messages, too",
            expected=f"a message about {key}, here or in the log of a run of model_intake",
            remedy=f"airflow dags list-runs model_intake; its newest run names {name} if the event has come",
        )


def _comes(client: Any, url: str, name: str) -> bool:
    """Look for the message about an object, and take that one alone."""
    until = time.monotonic() + COMES_WITHIN_S
    while time.monotonic() < until:
        answer = client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=_AT_ONCE, WaitTimeSeconds=_WAIT_S, VisibilityTimeout=0
        )
        for message in answer.get("Messages", ()):
            if name in str(message.get("Body", "")):
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                return True
    return False
