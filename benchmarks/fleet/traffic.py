"""Clients of every server of a fleet, over HTTP and gRPC, in a process of its own.

    python -m benchmarks.fleet.traffic --server NAME=HTTP_PORT,GRPC_PORT … --rate-rps 20 --output FILE …

Each server is asked at a fixed rate by clients of its own, whether or not it has answered those before; the servers
take turns, so that their answers lie evenly in time. Nothing is ever asked twice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import aiohttp
import grpc  # type: ignore[import-untyped]

from benchmarks.fleet.answers import FleetAnswer
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.load.clients import CHANNEL_OPTIONS, REQUEST_TIMEOUT_S, Client, GrpcClient, HttpClient
from slipway_sandbox.load.request_set import RequestSet
from slipway_sandbox.load.schedule import stopped

_MOST_IN_FLIGHT = 200
_FLUSH_S = 0.2


async def ask_at_rate(
    server: str,
    over: Sequence[Client],
    rows: int,
    rate_rps: float,
    first: float,
    on_answer: Callable[[FleetAnswer], None],
    stop: asyncio.Event,
) -> None:
    """Send requests to one server, over the clients in turn, until `stop`; then wait for what is in flight.

    :param first: when to begin, on the monotonic clock.
    """
    epoch = time.time() - time.monotonic()
    in_flight: Counter[str] = Counter()

    async def send(client: Client, row: int) -> None:
        sent = time.monotonic()
        outcome = await client.ask(row)
        received = time.monotonic()
        in_flight[client.protocol] -= 1
        is_good = outcome.error is None and outcome.value is not None and outcome.version is not None
        on_answer(
            FleetAnswer(
                server=server,
                protocol=client.protocol,
                sent=epoch + sent,
                received=epoch + received,
                version=int(outcome.value) if is_good and outcome.value is not None else None,
                reported=int(outcome.version) if is_good and outcome.version else None,
                error=outcome.error,
            )
        )

    async with asyncio.TaskGroup() as group:
        number = 0
        while not await stopped(stop, max(0.0, first + number / rate_rps - time.monotonic())):
            client = over[number % len(over)]
            # A server that hangs would gather requests without end.
            if in_flight[client.protocol] < _MOST_IN_FLIGHT:
                in_flight[client.protocol] += 1
                group.create_task(send(client, number % rows))
            number += 1


@contextlib.asynccontextmanager
async def _clients(
    http: int, grpc_port: int, model: str, requests: RequestSet
) -> AsyncIterator[list[Client]]:
    session = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S), connector=aiohttp.TCPConnector(limit=0)
    )
    async with (
        session,
        grpc.aio.insecure_channel(f"{LOOPBACK}:{grpc_port}", options=CHANNEL_OPTIONS) as channel,
    ):
        yield [
            HttpClient(session, http, LOOPBACK, model, requests),
            GrpcClient([channel], model, requests),
        ]


async def run(
    ports: Mapping[str, tuple[int, int]],
    model: str,
    requests: RequestSet,
    rate_rps: float,
    on_answer: Callable[[FleetAnswer], None],
    stop: asyncio.Event,
) -> None:
    """Ask all servers until `stop`.

    :param ports: HTTP and gRPC port by the server's name.
    :param rate_rps: to each server, half of it over either protocol.
    """
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        first = time.monotonic() + 0.2
        for place, (server, (http, grpc_port)) in enumerate(ports.items()):
            over = await stack.enter_async_context(_clients(http, grpc_port, model, requests))
            begin = first + place / (rate_rps * len(ports))
            group.create_task(ask_at_rate(server, over, len(requests), rate_rps, begin, on_answer, stop))


async def _main(arguments: argparse.Namespace) -> None:
    requests = RequestSet.load(arguments.requests)
    ports = {}
    for given in arguments.server:
        name, _, numbers = given.partition("=")
        http, _, grpc_port = numbers.partition(",")
        ports[name] = (int(http), int(grpc_port))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with arguments.output.open("w", encoding="utf-8", buffering=1 << 16) as file:

        async def flush() -> None:
            while not await stopped(stop, _FLUSH_S):
                file.flush()

        async with asyncio.TaskGroup() as group:
            group.create_task(flush())
            group.create_task(
                run(
                    ports,
                    arguments.model,
                    requests,
                    arguments.rate_rps,
                    lambda answer: print(answer.to_line(), file=file),
                    stop,
                )
            )


def main() -> int:
    """Run the clients until SIGTERM."""
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.traffic")
    parser.add_argument("--server", action="append", required=True, metavar="NAME=HTTP_PORT,GRPC_PORT")
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=Path, required=True, help="what `RequestSet.save` wrote")
    parser.add_argument("--rate-rps", type=float, required=True, help="to each server")
    parser.add_argument("--output", type=Path, required=True)
    asyncio.run(_main(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
