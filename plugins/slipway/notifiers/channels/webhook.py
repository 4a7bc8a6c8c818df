"""A webhook by the Standard Webhooks specification: an id, a time and a signature (HMAC-SHA256) in its headers.

https://www.standardwebhooks.com: a receiver verifies it with that project's library, and drops an id that it has seen.
"""

from __future__ import annotations

import json
import re
from binascii import Error as Base64Error
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Self

from slipway.hooks.connection_fields import whole_url
from slipway.notifiers.channel import CHANNELS, Channel
from slipway.notifiers.library_log import kept_from_logs
from slipway.notifiers.receiver import (
    ANSWER_LIMIT_S,
    CONNECT_LIMIT_S,
    NeverDeliveredError,
    NotDeliveredError,
    is_for_good,
)
from slipway_core.http_answers.retry_after import HEADER, retry_after_s
from slipway_core.operations.notices.message import Message

if TYPE_CHECKING:
    from airflow.sdk import Connection

_WRONG_ADDRESS = "correct the address and the key in the connection; it is not retried"


@CHANNELS.register
class WebhookChannel(Channel):
    """Posts messages as JSON: `type` (`slipway.EVENT`), `timestamp` and `data`.

    :param url: where to; it may hold a token and is never shown.
    :param key: `whsec_` and the key in base 64.
    """

    name: ClassVar[str] = "webhook"
    password: ClassVar[re.Pattern[str] | None] = re.compile("whsec_")

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return the webhook whose URL is the connection's host, and whose key is its password.

        :raises NeverDeliveredError: there is no such URL.
        """
        url = _url(connection.schema, connection.host, connection.port)
        return cls(url, (connection.password or "").strip())

    def send(self, message: Message) -> None:
        """Send the message.

        :raises NotDeliveredError: it was not taken.
        :raises NeverDeliveredError: the address, the key or the message will never be taken.
        """
        import requests

        now = datetime.now(UTC)
        event = str(message.data.get("event", "message"))
        document = {"type": f"slipway.{event}", "timestamp": now.isoformat(), "data": dict(message.data)}
        body = json.dumps(document)
        headers = {
            "content-type": "application/json",
            "webhook-id": message.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signature(message.id, now, body),
        }
        try:
            # Redirects would lead the message to somebody whom nobody named. The answer's body is not read.
            with (
                kept_from_logs(),
                requests.post(
                    self._url,
                    data=body.encode(),
                    headers=headers,
                    timeout=(CONNECT_LIMIT_S, ANSWER_LIMIT_S),
                    allow_redirects=False,
                    stream=True,
                ) as answer,
            ):
                status, wanted = answer.status_code, answer.headers.get(HEADER)
        except ValueError as error:
            # Its text has the URL. All of them are ValueErrors, and so is what else is wrong with an address.
            raise _never_taken(f"an invalid address ({type(error).__name__})") from None
        except requests.RequestException as error:
            raise _not_taken(type(error).__name__) from None
        if is_for_good(status):
            raise _never_taken(f"HTTP {status}")
        if not 200 <= status < 300:
            not_taken = _not_taken(f"HTTP {status}")
            not_taken.retry_after_s = retry_after_s(wanted, now) or 0.0
            raise not_taken

    def _signature(self, message_id: str, now: datetime, body: str) -> str:
        from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

        try:
            return Webhook(self._key).sign(message_id, now, body)
        except (EmptyWebhookSecretError, Base64Error, ValueError):
            raise _never_taken("a signing key that is not Base64") from None


def _not_taken(found: str) -> NotDeliveredError:
    return NotDeliveredError(
        "the webhook did not accept the message",
        expected="HTTP 2xx",
        found=found,
        remedy="it is retried; check the receiver",
    )


def _never_taken(found: str) -> NeverDeliveredError:
    return NeverDeliveredError(
        "the webhook refuses the message", expected="HTTP 2xx", found=found, remedy=_WRONG_ADDRESS
    )


def _url(schema: str | None, host: str | None, port: int | None) -> str:
    """Return the URL of a webhook: the connection's host, with what it leaves out."""
    if not host:
        raise NeverDeliveredError(
            "the connection of a signed webhook has no address",
            expected="a URL as its host, such as https://ops.example.com/slipway",
            found="no host",
            remedy="see docs/notifications.md",
        )
    try:
        return whole_url(host, schema, port, "https").geturl()
    except ValueError as error:
        raise NeverDeliveredError(
            "the connection of a signed webhook has an invalid address",
            expected="a URL as its host, such as https://ops.example.com/slipway",
            found=str(error),
            remedy="see docs/notifications.md",
        ) from None
