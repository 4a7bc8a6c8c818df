"""Clients that send requests by a fixed schedule over HTTP and gRPC, and write every answer down.

`python -m slipway_sandbox.load --port PORT --authority HOST --model NAME --requests FILE --output FILE` runs until
SIGTERM, or until the process that started it is gone. Until the model has answered once over each protocol nothing
counts: there is nothing yet that could fail. `OpenLoad` is the handle of whoever starts it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from slipway_sandbox.load.clients import PROTOCOLS, clients
from slipway_sandbox.load.request_set import RequestSet
from slipway_sandbox.load.schedule import offer, wait_for_answers

MAX_RATE_RPS = 1000


async def run(arguments: argparse.Namespace) -> None:
    """Wait until the model answers over each protocol, then offer the load until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    requests = RequestSet.load(arguments.requests)
    with arguments.output.open("a", encoding="utf-8", buffering=1) as file:
        async with clients(
            arguments.port, arguments.authority, arguments.model, requests, arguments.protocols
        ) as over:
            await wait_for_answers(over, stop)
            await offer(
                over,
                requests,
                arguments.rate_rps,
                lambda answer: print(answer.to_line(), file=file),
                stop,
                in_flight_limit=arguments.in_flight_limit,
            )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m slipway_sandbox.load", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="the router's port, for HTTP and gRPC")
    parser.add_argument("--authority", required=True, help="the InferenceService's host name")
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--requests", type=Path, required=True, help="what to send, as RequestSet.save wrote it"
    )
    parser.add_argument(
        "--rate-rps", type=float, default=200.0, help="requests a second, over all protocols together"
    )
    parser.add_argument(
        "--in-flight-limit", type=int, help="how many requests of a protocol may wait for an answer"
    )
    parser.add_argument(
        "--protocols",
        nargs="+",
        choices=PROTOCOLS,
        default=PROTOCOLS,
        help="over which to ask; all by default",
    )
    parser.add_argument("--output", type=Path, required=True, help="JSON lines are appended here")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    arguments = _arguments(argv)
    if not 0 < arguments.rate_rps <= MAX_RATE_RPS:
        raise SystemExit(
            f"--rate-rps: expected more than 0 and at most {MAX_RATE_RPS}, found {arguments.rate_rps:g}"
        )
    asyncio.run(run(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
