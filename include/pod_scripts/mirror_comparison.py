#!/usr/bin/env python3
"""Sends copies of users' requests to two versions of a model, and compares the answers.

A router mirrors requests to this program, fire and forget: it answers at once with nothing, and what it says is
thrown away. Each inference request is then sent to the stable version's own address and to the candidate's, and
the two answers are compared output by output: |stable - candidate| <= abs + rel * |stable|. HTTP
(`POST /v2/models/M[/versions/V]/infer`, binary tensors and compressed bodies included) comes in at one port, gRPC
(`ModelInfer`) at another. Everything else is ignored, and so are requests that belong to a sequence or use
shared memory: asked twice, they would change what users get.

It ends when so many requests were compared or the time is up, and writes `result.json` under the destination:
counts, latencies and the largest differences, of which it keeps the numbers and a digest of the request, nothing
else of what users sent.

Exit codes: 0 done; 2 wrong usage; 3 it cannot listen there; 75 try again later (no S3, a port in use); 1 a fault here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from slipway_pod.errors import PodError
from slipway_pod.mirror_comparison.comparison import compare
from slipway_pod.mirror_comparison.report import ComparisonReport
from slipway_pod.mirror_comparison.requests import (
    MARK,
    MAX_REQUEST_BYTES,
    Request,
    RequestQueue,
    is_asked_twice_at_a_cost,
)
from slipway_pod.models.protocol import Answer, Tensor, read_grpc_answer, read_http_answer
from slipway_pod.program.arguments import http_url, new_parser, not_negative, positive, s3_url, whole
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.software import tool_versions
from slipway_pod.program.stopping import run_until_stopped
from slipway_pod.storage.s3 import Store

if TYPE_CHECKING:
    import grpc
    from aiohttp import ClientSession, web

PACKAGES = ("aiohttp", "grpcio", "numpy", "tritonclient")
INFER_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/[^/]+)?/infer$")
TIME_LIMIT = "time limit"
GRPC_METHOD = "/inference.GRPCInferenceService/ModelInfer"
# Headers of one connection or one router, not of the request.
NOT_PASSED_ON = frozenset(
    {
        "accept-encoding", "connection", "content-length", "content-type", "expect", "grpc-accept-encoding",
        "grpc-timeout", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        "user-agent",
    }
)  # fmt: skip
NOT_PASSED_ON_PREFIXES = ("x-envoy-", "x-forwarded-", ":", "grpc-")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--model", required=True, metavar="NAME", help="requests for other models are ignored")
    for side, whose in (("stable", "the stable version's"), ("candidate", "the candidate's")):
        add(f"--{side}-url", required=True, type=http_url, metavar="URL", help=f"{whose} own address")
        add(f"--{side}-host", metavar="HOST", help="the host to ask it for (default: the URL's)")
    add("--abs-tolerance", type=not_negative, default=1e-4, metavar="X", help="(default: %(default)s)")
    add("--rel-tolerance", type=not_negative, default=1e-3, metavar="X", help="(default: %(default)s)")
    add("--class-output", metavar="NAME", help="the output whose highest score, or value, is the class")
    add("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    add("--port", type=whole, default=8080, help="for HTTP (default: %(default)s)")
    add("--grpc-port", type=whole, default=8081, help="for gRPC (default: %(default)s)")
    add("--requests", type=whole, default=200, metavar="N", help="to compare (default: %(default)s)")
    text = "limit of the run (default: %(default)s)"
    add("--timeout-s", type=positive, default=600.0, metavar="S", help=text)
    text = "of one answer, at least; more of a model whose stable version needs it (default: %(default)s)"
    add("--request-timeout-s", type=positive, default=30.0, metavar="S", help=text)
    add("--concurrency", type=whole, default=4, metavar="N", help="pairs in flight (default: %(default)s)")
    add("--queue", type=whole, default=256, metavar="N", help="requests that may wait (default: %(default)s)")
    add("--worst", type=whole, default=50, metavar="N", help="differences to keep (default: %(default)s)")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    options = parser.parse_args(argv)
    options.stable_host = options.stable_host or urlsplit(options.stable_url).netloc
    options.candidate_host = options.candidate_host or urlsplit(options.candidate_url).netloc
    return options


# ---------------------------------------------------------------- the two versions


class Side:
    """One version, at its own address, with the connections to it: see `open_side`."""

    def __init__(self, url: str, host: str, session: ClientSession, channel: grpc.aio.Channel) -> None:
        self.url = url.rstrip("/")
        self.host = host
        self._session = session
        self._channel = channel

    async def ask(self, request: Request, limit_s: float) -> Answer:
        """Return the version's answer; a failure counts as an answer, and so does silence until the limit."""
        began = time.monotonic()
        ask = self._ask_http if request.path else self._ask_grpc
        outputs, failure = await ask(request, limit_s)
        return Answer(outputs, failure, 1000 * (time.monotonic() - began))

    async def _ask_http(self, request: Request, limit_s: float) -> tuple[dict[str, Tensor] | None, str]:
        import aiohttp
        from yarl import URL

        headers = [
            ("Host", self.host),
            (MARK, "1"),
            # Not compressed: the answer is compared, not stored.
            ("Accept-Encoding", "identity"),
            *((name, value) for name, value in request.headers if name.lower() == "content-type"),
            *passed_on(request.headers),
        ]
        try:
            async with self._session.post(
                URL(self.url + request.path, encoded=True),
                data=request.body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=limit_s),
                server_hostname=self.host.partition(":")[0] if self.url.startswith("https:") else None,
            ) as response:
                body = await response.read()
        except TimeoutError:
            return None, TIME_LIMIT
        except (aiohttp.ClientError, OSError):
            return None, "no answer"
        if response.status != 200:
            return None, f"HTTP {response.status}"
        return self._read(
            lambda: read_http_answer(body, response.headers.get("Inference-Header-Content-Length"))
        )

    async def _ask_grpc(self, request: Request, limit_s: float) -> tuple[dict[str, Tensor] | None, str]:
        import grpc

        call = self._channel.unary_unary(GRPC_METHOD)
        metadata = ((MARK, "1"), *passed_on(request.headers))
        try:
            body = await call(request.body, timeout=limit_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            name = error.code().name
            return None, TIME_LIMIT if name == "DEADLINE_EXCEEDED" else f"gRPC {name}"
        return self._read(lambda: read_grpc_answer(body))

    @staticmethod
    def _read(read: Callable[[], dict[str, Tensor]]) -> tuple[dict[str, Tensor] | None, str]:
        try:
            return read(), ""
        except Exception:  # whatever a server may send
            return None, "unreadable answer"


@contextlib.asynccontextmanager
async def open_side(url: str, host: str) -> AsyncIterator[Side]:
    """Open one version's own address; connections are made when needed.

    :param url: where to connect.
    :param host: the host that the requests name.
    """
    import aiohttp
    import grpc

    parts = urlsplit(url)
    secure = parts.scheme == "https"
    name = parts.hostname or ""
    # The brackets of an IPv6 address are not part of its name, and gRPC needs them.
    target = f"{f'[{name}]' if ':' in name else name}:{parts.port or (443 if secure else 80)}"
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # A failure is counted, not tried again.
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.ssl_target_name_override", host.partition(":")[0])
        if secure
        else ("grpc.default_authority", host),
    ]
    channel = (
        grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
        if secure
        else grpc.aio.insecure_channel(target, options)
    )
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    async with session, channel:
        yield Side(url, host, session, channel)


def passed_on(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers that are the request's own."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in NOT_PASSED_ON and not name.lower().startswith(NOT_PASSED_ON_PREFIXES)
    ]


# ---------------------------------------------------------------- listening


@contextlib.asynccontextmanager
async def http_server(queue: RequestQueue, host: str, port: int) -> AsyncIterator[None]:
    """Take mirrored HTTP requests while the context lasts.

    :raises PodError: it cannot listen.
    """
    from aiohttp import web

    async def take(request: web.Request) -> web.Response:
        found = INFER_PATH.search(request.rel_url.raw_path)
        if request.method != "POST" or found is None or found[1] != queue.model:
            queue.ignore()
            return web.Response()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            queue.drop()
            return web.Response()
        queue.offer(Request(body, tuple(request.headers.items()), found[0]))
        return web.Response()

    application = web.Application(client_max_size=MAX_REQUEST_BYTES)
    application.router.add_route("*", "/{path:.*}", take)
    # Bodies stay compressed: they are sent on as they came.
    runner = web.AppRunner(application, access_log=None, auto_decompress=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise cannot_listen(host, port, error) from error
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def grpc_server(queue: RequestQueue, host: str, port: int) -> AsyncIterator[None]:
    """Take mirrored gRPC requests while the context lasts.

    :raises PodError: it cannot listen.
    """
    import grpc
    from google.protobuf.message import DecodeError
    from tritonclient.grpc import service_pb2

    def names_the_model(body: bytes) -> bool:
        try:
            return bool(service_pb2.ModelInferRequest.FromString(body).model_name == queue.model)
        except DecodeError:
            return False

    async def take(body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        if not names_the_model(body):
            queue.ignore()
            return b""
        texts = [(key, value) for key, value in context.invocation_metadata() if isinstance(value, str)]
        queue.offer(Request(body, tuple(texts)))
        # An empty message is a valid ModelInferResponse.
        return b""

    class Takes(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            if details.method == GRPC_METHOD:
                return grpc.unary_unary_rpc_method_handler(take)
            queue.ignore()
            return None

    options = [
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        # Two programs must not share a port without noticing.
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.aio.server(handlers=[Takes()], options=options)
    try:
        server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise cannot_listen(host, port, error) from error
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=0.5)


def cannot_listen(host: str, port: int, error: Exception) -> PodError:
    """Return the error for an address that is in use, or is not this machine's."""
    number = getattr(error, "errno", None)
    wrong = number in (errno.EADDRNOTAVAIL, errno.EACCES) or (number is not None and number < 0)
    return PodError(
        "UserError" if wrong else "TransientError",
        f"Cannot listen on {host}:{port}",
        expected="an address of this pod and a port that is free",
        found=type(error).__name__ if number is None else errno.errorcode.get(number, str(number)),
        remedy="correct the connection slipway_mirror, or wait until the program that listens there has ended",
    )


# ---------------------------------------------------------------- the run


async def work(
    queue: RequestQueue, stable: Side, candidate: Side, report: ComparisonReport, options: argparse.Namespace
) -> None:
    """Send each request to both versions at once, until enough are judged."""
    while report.judged < options.requests:
        request = await queue.take()
        if is_asked_twice_at_a_cost(request):
            queue.counts["ignored"] += 1
            continue
        limit_s = report.limit_s(options.request_timeout_s, options.concurrency)
        ours, theirs = await asyncio.gather(stable.ask(request, limit_s), candidate.ask(request, limit_s))
        if report.judged >= options.requests:
            return
        comparison = None
        if ours.outputs is not None and theirs.outputs is not None:
            comparison = compare(
                ours.outputs,
                theirs.outputs,
                options.abs_tolerance,
                options.rel_tolerance,
                options.class_output,
            )
        report.add(request, ours, theirs, comparison)


async def listen_and_compare(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Receive and compare until enough is judged; fill in the result, so that a failure still tells what was seen."""
    queue, report = RequestQueue(options.model, options.queue), ComparisonReport(options.worst)
    try:
        async with (
            open_side(options.stable_url, options.stable_host) as stable,
            open_side(options.candidate_url, options.candidate_host) as candidate,
            http_server(queue, options.host, options.port),
            grpc_server(queue, options.host, options.grpc_port),
        ):
            say(
                "listen", f"HTTP on {options.host}:{options.port}, gRPC on {options.host}:{options.grpc_port}"
            )
            await until_enough(queue, stable, candidate, report, options)
    finally:
        found = report.to_json()
        arrived = {name: queue.counts[name] for name in ("received", "ignored", "dropped")}
        result |= found | {"counts": arrived | found["counts"]}
        result["ended"] = "enough" if report.judged >= options.requests else "time"


async def until_enough(
    queue: RequestQueue, stable: Side, candidate: Side, report: ComparisonReport, options: argparse.Namespace
) -> None:
    """Work until enough requests are judged or the time is up."""
    workers = [
        asyncio.create_task(work(queue, stable, candidate, report, options))
        for _ in range(options.concurrency)
    ]
    try:
        # The first worker to end has seen enough requests, or has failed.
        done, _ = await asyncio.wait(workers, timeout=options.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(argv)

    def work(_: Store, result: dict[str, Any]) -> None:
        run_until_stopped(listen_and_compare(options, result))
        counts = result["counts"]
        shown = ("compared", "differ", "candidate_failed")
        say("compare", ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in shown))

    versions = partial(tool_versions, PACKAGES)
    return run_to_result(options.destination, work, tools=versions, subject="comparison", done="done")


if __name__ == "__main__":
    raise SystemExit(main())
