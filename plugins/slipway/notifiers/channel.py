"""What a notification channel is: it is made of an Airflow connection, and sends messages to whom that leads to.

To add one, copy a file of `slipway.notifiers.channels`; docs/development.md says the rest.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from slipway_core.kind_registry import KindRegistry
from slipway_core.operations.notices.message import Message

if TYPE_CHECKING:
    from airflow.sdk import Connection


class Channel(ABC):
    """A way to people.

    Its libraries are imported when something is sent. No address, password or key is ever in an error or a log.
    """

    required: ClassVar[tuple[str, ...]] = ("name",)
    name: ClassVar[str]
    """By which a connection's extra names it, as `{"channel": NAME}`."""
    password: ClassVar[re.Pattern[str] | None] = None
    """What the passwords of its connections look like; by this a channel of Slipway's is found without its name."""

    @classmethod
    @abstractmethod
    def of(cls, connection: Connection) -> Self:
        """Return the channel to whom a connection leads.

        :raises NeverDeliveredError: nothing can be sent by it.
        :raises InputMissingError: it lacks something.
        """

    @abstractmethod
    def send(self, message: Message) -> None:
        """Send it, in some seconds or for as long as the receiver drips bytes.

        :raises NotDeliveredError: it was not taken; the reason holds no secret.
        :raises NeverDeliveredError: it will not be taken, however often it is tried.
        """


CHANNELS: KindRegistry[Channel] = KindRegistry(
    "notification channel",
    folder="slipway.notifiers.channels",
    base="slipway.notifiers.channel:Channel",
    name_attribute="name",
    group="slipway.notification_channels",
)
