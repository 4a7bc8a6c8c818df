"""Slipway's notifier: for its own notices, and for callbacks in anybody's DAGs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk.bases.notifier import BaseNotifier

from slipway.notifiers.connection import channel_of
from slipway.notifiers.receiver import NotDeliveredError, ReceiverHangsError
from slipway_core.errors import SlipwayError
from slipway_core.operations.notices.message import (
    TEXT_LIMIT,
    TITLE_LIMIT,
    Message,
    Severity,
    harmless,
)
from slipway_core.operations.notices.notice import shortened

if TYPE_CHECKING:
    from airflow.sdk import Context

LIMIT_S = 15.0
"""The limit for one message; a receiver that hangs is abandoned then."""


class SlipwayNotifier(BaseNotifier):
    """Sends one message to the receiver that an Airflow connection leads to.

    In a DAG of one's own: ``on_failure_callback=SlipwayNotifier(to="slack_default", text="{{ dag.dag_id }} failed")``.

    :param to: the id of the connection (docs/notifications.md).
    :param title: of the message (templated).
    :param text: the message (templated): plain text, made harmless.
    :param severity: `info`, `success`, `warning` or `failure`.
    :param message: what to send instead, as it is; nothing in it is a template.
    """

    template_fields: Sequence[str] = ("title", "text")

    def __init__(
        self,
        *,
        to: str,
        text: str = "",
        title: str = "Airflow",
        severity: Severity = "failure",
        message: Message | None = None,
    ) -> None:
        super().__init__()
        self.to = to
        self.text = text
        self.title = title
        self.severity: Severity = severity
        self.message = message

    def notify(self, context: Context) -> None:
        """Send the message; it takes 15 seconds at most.

        :raises NotDeliveredError: it was not taken, or not in time; the reason holds no secret.
        :raises NeverDeliveredError: it will not be taken, however often it is tried.
        :raises InputMissingError: there is no such connection.
        """
        send_within(self.to, self.message or self._own_message(context), LIMIT_S)

    def _own_message(self, context: Context) -> Message:
        lines = [harmless(line) for line in self.text.splitlines()]
        title, text = shortened(harmless(self.title), TITLE_LIMIT), shortened("\n".join(lines), TEXT_LIMIT)
        run_id = str(context.get("run_id", ""))
        name = hashlib.sha256("\0".join((self.to, run_id, title, text)).encode("utf-8", "replace"))
        message_id = name.hexdigest()[:32]
        data = {"event": "message", "id": message_id, "title": title, "text": text}
        return Message(message_id, title, text, self.severity, data)


def send_within(to: str, message: Message, limit_s: float) -> None:
    """Send a message in a thread that is left behind after `limit_s`.

    :raises NotDeliveredError: it was not taken, or not in time.
    :raises UserError: the connection is missing or of another form.
    """
    failures: list[Exception] = []

    def send() -> None:
        try:
            channel_of(to).send(message)
        except Exception as error:
            failures.append(error)

    sending = threading.Thread(target=send, name=f"notify {to}", daemon=True)
    sending.start()
    sending.join(limit_s)
    if sending.is_alive():
        raise ReceiverHangsError(
            f"{to} hangs",
            expected=f"an answer within {limit_s:g} s",
            found="none",
            remedy="it is retried; check the receiver",
        )
    if failures and isinstance(failures[0], SlipwayError):
        raise failures[0]
    if failures:
        # Its text may hold what the connection does.
        raise NotDeliveredError(f"{to} was not notified", found=type(failures[0]).__name__) from None
