"""Sends golden requests to one revision after the other, by the protocol that each is for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from slipway.hooks.ingress import Endpoint
from slipway.traffic.golden_requests.grpc_requests import GrpcAsker

_HEADER_LENGTH = "Inference-Header-Content-Length"
_ANSWER_BYTES_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True)
class GoldenRequest:
    """One golden row as the body of a V2 request, and the outputs that must come back.

    :param path: that of the REST call; "" for gRPC.
    """

    path: str
    body: bytes
    header_length: int | None
    outputs: tuple[str, ...]

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request, less the host."""
        binary = {} if self.header_length is None else {_HEADER_LENGTH: str(self.header_length)}
        return {"Content-Type": "application/octet-stream", **binary}


@dataclass(frozen=True)
class Answered:
    """What came of one request, and after what time."""

    seconds: float
    good: bool


Ask = Callable[[Endpoint, GoldenRequest, float], Awaitable[Answered]]


@asynccontextmanager
async def asking() -> AsyncIterator[Ask]:
    """Yield what sends a request and waits for its answer for so many seconds; none within them is no good one."""
    over_grpc = GrpcAsker()
    async with aiohttp.ClientSession(
        # Pace and rate bound what is under way at once.
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:

        async def ask(endpoint: Endpoint, request: GoldenRequest, limit_s: float) -> Answered:
            began = time.perf_counter()
            if request.path:
                good = await _is_answered(session, endpoint, request, limit_s)
            else:
                good = await over_grpc.is_answered(endpoint, request.body, request.outputs, limit_s)
            return Answered(time.perf_counter() - began, good)

        try:
            yield ask
        finally:
            await over_grpc.close()


async def _is_answered(
    session: aiohttp.ClientSession, endpoint: Endpoint, request: GoldenRequest, limit_s: float
) -> bool:
    try:
        async with session.post(
            endpoint.base_url + request.path,
            data=request.body,
            headers={**request.headers, "Host": endpoint.host},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=limit_s),
        ) as answer:
            body = await _body(answer)
            return answer.status < 400 and _has_outputs(request, body, answer.headers.get(_HEADER_LENGTH))
    except (aiohttp.ClientError, OSError):  # a TimeoutError is one of the latter
        return False


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _ANSWER_BYTES_LIMIT:
            return b""
    return b"".join(parts)


def _has_outputs(request: GoldenRequest, body: bytes, header_length: str | None) -> bool:
    """Whether the answer holds every output that was asked for."""
    from tritonclient.http import InferenceServerClient
    from tritonclient.utils import InferenceServerException

    try:
        length = None if header_length is None else int(header_length)
        result = InferenceServerClient.parse_response_body(body, header_length=length)
        return all(result.get_output(name) is not None for name in request.outputs)
    except (ValueError, KeyError, TypeError, AttributeError, InferenceServerException):
        return False
