"""Many messages to many receivers at once: one that hangs or fails keeps none of the others waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from slipway.notifiers.notifier import SlipwayNotifier
from slipway.notifiers.receiver import NeverDeliveredError, NotDeliveredError, ReceiverHangsError
from slipway_core.errors import SlipwayError
from slipway_core.operations.notices.message import Message
from slipway_core.operations.notices.retry import Failure

log = logging.getLogger(__name__)

DEADLINE_S = 40.0
"""After this time no further message is started; the next run sends the rest."""
PUT_OFF = "not sent this time: the receiver took too long"


@dataclass(frozen=True)
class Delivery:
    """A message for one receiver. `name` is who sends it knows it by."""

    name: str
    to: str
    message: Message


def deliver(deliveries: Iterable[Delivery]) -> dict[tuple[str, str], Failure]:
    """Send all, and return why some were not taken, by name and receiver.

    Each receiver has a thread of its own and gets its messages one after another, in their order. One that hangs is not
    given another message now.
    """
    queues: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        queues[delivery.to].append(delivery)
    failed: dict[tuple[str, str], Failure] = {}
    until = time.monotonic() + DEADLINE_S
    threads = [
        threading.Thread(target=_work, args=(queue, failed, until), name=f"notices {to}", daemon=True)
        for to, queue in queues.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Each message has its limit, so that each thread ends.
        thread.join()
    return failed


def _work(queue: list[Delivery], failed: dict[tuple[str, str], Failure], until: float) -> None:
    hangs = False
    for delivery in queue:
        place = delivery.name, delivery.to
        if hangs or time.monotonic() > until:
            failed[place] = Failure(PUT_OFF)
            continue
        try:
            SlipwayNotifier(to=delivery.to, message=delivery.message).notify({})
        except SlipwayError as error:
            failed[place] = Failure(
                error.in_short(),
                is_final=isinstance(error, NeverDeliveredError),
                retry_after_s=error.retry_after_s if isinstance(error, NotDeliveredError) else 0.0,
            )
            hangs = isinstance(error, ReceiverHangsError)
            log.warning(
                "%s was not notified (%s): %s", delivery.to, delivery.message.title, failed[place].reason
            )
        else:
            log.info("%s was notified: %s", delivery.to, delivery.message.title)
