"""When requests are sent: by a fixed schedule, whether or not those before have been answered."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence

from slipway_sandbox.load.answers import Answer
from slipway_sandbox.load.clients import Client
from slipway_sandbox.load.request_set import RequestSet

_RETRY_S = 0.2


async def offer(
    over: Sequence[Client],
    requests: RequestSet,
    rate_rps: float,
    on_answer: Callable[[Answer], None],
    stop: asyncio.Event,
    *,
    in_flight_limit: int | None = None,
) -> None:
    """Send `rate_rps` requests a second, over the clients in turn, until `stop`; then wait for what is in flight.

    A request that is late, because this process was busy, is sent at once.

    :param on_answer: is called with every answer.
    :param in_flight_limit: a request that is due while a client waits for so many answers is left out; None: the
        loop is open, and no request is left out.
    """
    epoch = time.time() - time.monotonic()
    first = time.monotonic()
    waiting: Counter[Client] = Counter()

    async def send(client: Client, row: int, due: float) -> None:
        sent = time.monotonic()
        outcome = await client.ask(row)
        received = time.monotonic()
        waiting[client] -= 1
        on_answer(
            Answer(
                due=epoch + due,
                sent=epoch + sent,
                received=epoch + received,
                protocol=client.protocol,
                revision=outcome.revision,
                error=outcome.error,
                version=outcome.version,
                right=requests.is_right(row, outcome.value),
            )
        )

    # A group, so that an error in a client ends the load: what follows would go uncounted.
    async with asyncio.TaskGroup() as group:
        for number, client in enumerate(itertools.cycle(over)):
            due = first + number / rate_rps
            if await stopped(stop, max(0.0, due - time.monotonic())):
                break
            if in_flight_limit is None or waiting[client] < in_flight_limit:
                waiting[client] += 1
                group.create_task(send(client, number % len(requests), due))


async def wait_for_answers(over: Sequence[Client], stop: asyncio.Event) -> None:
    """Ask until every client got a good answer, or until `stop`."""
    for client in over:
        while (await client.ask(0)).error is not None and not await stopped(stop, _RETRY_S):
            pass


async def stopped(stop: asyncio.Event, within_s: float) -> bool:
    """Wait until `stop`, or until the time is up; tell which."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await stop.wait()
    return stop.is_set()
