"""Clients that never slow down: requests over HTTP and gRPC by a fixed schedule, every answer written down.

`python -m include.sandbox.load.clients --port PORT --authority HOST --model NAME --output FILE` runs until SIGTERM or
until the process that started it is gone. The loop is open: a request is sent when it is due, whether or not those
before it have been answered, for real users do not wait for each other. Nothing is ever tried again. `OpenLoad` is
the handle of whoever starts it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import aiohttp
import grpc  # type: ignore[import-untyped]
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from include.model_release.errors import SlipwayError
from include.sandbox.host.child_process import end_with_parent
from include.sandbox.host.settings import LOOPBACK, MARKER, PROJECT_ROOT
from include.sandbox.load.answers import Answer, read_answers
from include.sandbox.services.envoy_config import REVISION_HEADER

REQUEST_TIMEOUT_S = 10.0
START_LIMIT_S = 60.0
RECONNECT_S = 0.5
"""How long after a router is back every connection of the clients is, at the latest."""

_CHANNELS = 2
_KNOCK_S = 0.2
_STOP_LIMIT_S = REQUEST_TIMEOUT_S + 5.0
_ERROR_CHARS = 200

Outcome = tuple[str | None, str | None]
"""The revision that answered, and the error, each None where there was none."""


class Client(Protocol):
    """Asks a model over one protocol; may be asked while it asks."""

    protocol: str

    async def ask(self) -> Outcome:
        """One request; a failure of any kind is an outcome with an error."""


class HttpClient:
    """The KServe v2 protocol over HTTP."""

    protocol = "http"

    def __init__(self, session: aiohttp.ClientSession, port: int, authority: str, model: str) -> None:
        self._session = session
        self._url = f"http://{LOOPBACK}:{port}/v2/models/{model}/infer"
        self._headers = {"Host": authority}
        tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}
        self._body = json.dumps({"inputs": [tensor]}).encode()

    async def ask(self) -> Outcome:
        """One POST, on a connection that is kept open."""
        try:
            async with self._session.post(self._url, data=self._body, headers=self._headers) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
        revision = response.headers.get(REVISION_HEADER)
        if response.status == 200:
            return revision, None
        return revision, f"HTTP {response.status}: {content.decode(errors='replace')}"[:_ERROR_CHARS]


class GrpcClient:
    """The KServe v2 protocol over gRPC."""

    protocol = "grpc"

    def __init__(self, channels: Sequence[Any], model: str) -> None:
        stubs = [service_pb2_grpc.GRPCInferenceServiceStub(channel) for channel in channels]
        self._stubs = itertools.cycle(stubs)
        tensor = service_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1])
        raw = np.array([1.0], dtype=np.float32).tobytes()
        self._request = service_pb2.ModelInferRequest(
            model_name=model, inputs=[tensor], raw_input_contents=[raw]
        )

    async def ask(self) -> Outcome:
        """One ModelInfer call."""
        call = next(self._stubs).ModelInfer(self._request, timeout=REQUEST_TIMEOUT_S, wait_for_ready=False)
        try:
            await call
        except grpc.aio.AioRpcError as error:
            text = f"{error.code().name}: {error.details()}"[:_ERROR_CHARS]
            # An answer without a body carries all its headers as trailers.
            headers = [*(error.initial_metadata() or ()), *(error.trailing_metadata() or ())]
            return _revision(headers), text
        return _revision(await call.initial_metadata()), None


@contextlib.asynccontextmanager
async def clients(port: int, authority: str, model: str) -> AsyncIterator[list[Client]]:
    """A client for each protocol, through the router's port; `authority` names the InferenceService."""
    options = [
        ("grpc.default_authority", authority),
        # gRPC would send some requests a second time by itself; then a failure would go unseen.
        ("grpc.enable_retries", 0),
        # Channels of one process share a connection otherwise.
        ("grpc.use_local_subchannel_pool", 1),
        # The default pauses for seconds, in which requests fail though the router is back.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 200),
    ]
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
                connector=aiohttp.TCPConnector(limit=0),
            )
        )
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(f"{LOOPBACK}:{port}", options=options))
            for _ in range(_CHANNELS)
        ]
        yield [HttpClient(session, port, authority, model), GrpcClient(channels, model)]


async def offer(
    over: Sequence[Client], rate_rps: float, told: Callable[[Answer], None], stop: asyncio.Event
) -> None:
    """Send `rate_rps` requests a second, over the clients in turn, until `stop`; then wait for what is in flight.

    A request that is late, because this process was busy, is sent at once: none is left out.
    """
    epoch = time.time() - time.monotonic()
    first = time.monotonic()
    under_way: set[asyncio.Task[None]] = set()

    async def send(client: Client, due: float) -> None:
        sent = time.monotonic()
        revision, error = await client.ask()
        received = time.monotonic()
        told(Answer(epoch + due, epoch + sent, epoch + received, client.protocol, revision, error))

    for number, client in enumerate(itertools.cycle(over)):
        due = first + number / rate_rps
        if await _stopped(stop, max(0.0, due - time.monotonic())):
            break
        task = asyncio.create_task(send(client, due))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    if under_way:
        await asyncio.wait(under_way)


async def _stopped(stop: asyncio.Event, within_s: float) -> bool:
    """Wait until `stop`, or until the time is up; says which."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await stop.wait()
    return stop.is_set()


async def run(arguments: argparse.Namespace) -> None:
    """Knock until the model answers over each protocol, then offer the load until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with arguments.output.open("a", encoding="utf-8", buffering=1) as file:
        async with clients(arguments.port, arguments.authority, arguments.model) as over:
            for client in over:
                while (await client.ask())[1] is not None and not await _stopped(stop, _KNOCK_S):
                    pass
            await offer(over, arguments.rate_rps, lambda answer: print(answer.to_line(), file=file), stop)


class OpenLoad:
    """The clients as a process of their own, which writes to `output`.

    A context manager: at its entrance the load is being offered, at its exit it has ended.

    :param lab_root: the root of the lab, whose end is the load's end too.
    :param start_limit_s: how long the model may take until it gives its first answers.
    """

    def __init__(
        self,
        *,
        port: int,
        authority: str,
        model: str,
        rate_rps: float,
        output: Path,
        lab_root: Path,
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        self.output = output
        self._start_limit_s = start_limit_s
        self._environment = {**os.environ, MARKER: str(lab_root)}
        self._command = [
            *(sys.executable, "-m", "include.sandbox.load.clients"),
            *("--port", str(port), "--authority", authority, "--model", model),
            *("--rate-rps", str(rate_rps), "--output", str(output)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.unlink(missing_ok=True)
        self._log = self.output.with_suffix(".log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=PROJECT_ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )
        try:
            self._wait_for_answers()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answers(self) -> list[Answer]:
        """What was answered so far."""
        return read_answers(self.output)

    def stop(self) -> list[Answer]:
        """Stop sending, wait for what is in flight, and return all answers. May be called twice."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        return self.answers() if self.output.exists() else []

    def _wait_for_answers(self) -> None:
        deadline = time.monotonic() + self._start_limit_s
        while not (self.output.exists() and self.output.stat().st_size):
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise SlipwayError(
                    "the lab's clients got no answer",
                    expected=f"a good one over each protocol within {self._start_limit_s:.0f} s",
                    found=self._log.read_text(errors="replace")[-800:] or "none",
                )
            time.sleep(_KNOCK_S)


def _revision(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    for name, value in metadata:
        if name == REVISION_HEADER:
            return value.decode() if isinstance(value, bytes) else value
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m include.sandbox.load.clients", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="the router's port, for HTTP and gRPC")
    parser.add_argument("--authority", required=True, help="the InferenceService's host name")
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--rate-rps", type=float, default=200.0, help="requests a second, over both protocols"
    )
    parser.add_argument("--output", type=Path, required=True, help="JSON lines are appended here")
    asyncio.run(run(parser.parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
