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
"""After so long no further message is begun; what is left is sent by the next run."""
PUT_OFF = "its turn did not come: the receiver took too long"


@dataclass(frozen=True)
class Parcel:
    """A message for one receiver. `name` is who sends it knows it by."""

    name: str
    to: str
    message: Message


def deliver(parcels: Iterable[Parcel]) -> dict[tuple[str, str], Failure]:
    """Send all, and return why some were not taken, by name and receiver.

    Each receiver has a thread of its own and gets its messages one after another, in their order. One that hangs is not
    given another message now.
    """
    queues: defaultdict[str, list[Parcel]] = defaultdict(list)
    for parcel in parcels:
        queues[parcel.to].append(parcel)
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


def _work(queue: list[Parcel], failed: dict[tuple[str, str], Failure], until: float) -> None:
    hangs = False
    for parcel in queue:
        place = parcel.name, parcel.to
        if hangs or time.monotonic() > until:
            failed[place] = Failure(PUT_OFF)
            continue
        try:
            SlipwayNotifier(to=parcel.to, message=parcel.message).notify({})
        except SlipwayError as error:
            failed[place] = Failure(
                error.in_short(),
                is_final=isinstance(error, NeverDeliveredError),
                retry_after_s=error.retry_after_s if isinstance(error, NotDeliveredError) else 0.0,
            )
            hangs = isinstance(error, ReceiverHangsError)
            log.warning("%s was not told (%s): %s", parcel.to, parcel.message.title, failed[place].reason)
        else:
            log.info("%s was told: %s", parcel.to, parcel.message.title)
