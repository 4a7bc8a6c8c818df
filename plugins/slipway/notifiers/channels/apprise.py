"""Slack, Teams, e-mail, PagerDuty and what else Apprise knows: one address, one library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Self

from slipway.notifiers.channel import CHANNELS, Channel
from slipway.notifiers.library_log import kept_from_logs
from slipway.notifiers.receiver import (
    ANSWER_LIMIT_S,
    CONNECT_LIMIT_S,
    NeverDeliveredError,
    NotDeliveredError,
    is_for_good,
    without_secrets,
)
from slipway_core.operations.notices.message import Message, Severity

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from apprise import AppriseAsset, NotifyType

# Apprise's plugins log the status of an answer so.
_STATUS = re.compile(r"\berror=([1-5]\d{2})\b")


@CHANNELS.register
class AppriseChannel(Channel):
    """Sends messages as plain text.

    :param address: in Apprise's form (https://appriseit.com), which holds the secret; it is never shown.
    """

    name: ClassVar[str] = "apprise"
    password: ClassVar[re.Pattern[str] | None] = re.compile(r"(?!whsec_)(?!.*\+aws://).*://", re.DOTALL)

    def __init__(self, address: str) -> None:
        self._address = address

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return the channel to the address in the connection's password."""
        return cls((connection.password or "").strip())

    def send(self, message: Message) -> None:
        """Send the message.

        :raises NotDeliveredError: it was not taken.
        :raises NeverDeliveredError: the address is invalid, or is refused permanently.
        """
        with kept_from_logs() as said:
            try:
                is_sent = self._send(message)
            except Exception as error:  # whatever the library raises; its text may hold the address
                said.append(type(error).__name__)
                is_sent = False
        status = _STATUS.search(" ".join(said))
        if is_sent is None or (not is_sent and status and is_for_good(int(status[1]))):
            raise NeverDeliveredError(
                "the receiver refuses the message",
                expected="an address that Apprise supports and the receiver accepts",
                found=without_secrets(" ".join(said), self._address)
                or "an address that Apprise does not support",
                remedy="correct the address in the connection's password; it is not retried",
            )
        if not is_sent:
            raise NotDeliveredError(
                "the receiver did not accept the message",
                expected="a receiver that answers",
                found=without_secrets(" ".join(said), self._address) or "no reason was given",
                remedy="it is retried; check the connection and the receiver",
            )

    def _send(self, message: Message) -> bool | None:
        """Return whether it was accepted; None: the address is invalid."""
        from apprise import Apprise, NotifyFormat

        receiver: Any = Apprise.instantiate(self._address, asset=_asset(), suppress_exceptions=True)
        if not receiver:
            return None
        receiver.socket_connect_timeout, receiver.socket_read_timeout = CONNECT_LIMIT_S, ANSWER_LIMIT_S
        # Nothing in a message is markup.
        receiver.notify_format = NotifyFormat.TEXT
        _name(receiver, message.id)
        return bool(
            receiver.notify(
                title=message.title,
                body=message.text,
                notify_type=_kind(message.severity),
                body_format=NotifyFormat.TEXT,
            )
        )


def _name(receiver: Any, message_id: str) -> None:
    """Give the message its name where the receiver has a place for one: PagerDuty, and a header of an e-mail."""
    if hasattr(receiver, "dedup"):
        receiver.dedup = message_id
    if receiver.service_name == "E-Mail":
        receiver.headers["X-Slipway-Notice"] = message_id


def _kind(severity: Severity) -> NotifyType:
    from apprise import NotifyType

    return NotifyType(severity)


def _asset() -> AppriseAsset:
    """Return the library's settings: no pictures from elsewhere, no files, no redirects, one thread."""
    from apprise import AppriseAsset

    return AppriseAsset(
        app_id="Slipway",
        app_desc="Slipway",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        async_mode=False,
        http_redirects=False,
        interpret_escapes=False,
        interpret_emojis=False,
    )
