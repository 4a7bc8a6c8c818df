"""Mirrored inference requests as they arrived: which may be sent twice, and which wait to be compared."""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_pod.storage.upload import MEBIBYTE

MAX_REQUEST_BYTES = 64 * MEBIBYTE
MAX_QUEUE_BYTES = 256 * MEBIBYTE
# Our own requests carry it: a router that mirrors them too would send them back forever.
MARK = "x-slipway-mirror"


@dataclass(frozen=True)
class Request:
    """One inference request as it came: `path` is that of HTTP, "" for gRPC; the body is not unpacked."""

    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    path: str = ""

    @property
    def protocol(self) -> str:
        """Return the protocol by which it came and is sent on."""
        return "http" if self.path else "grpc"

    @property
    def digest(self) -> str:
        """Return the start of the body's SHA-256, by which whoever has the request can find it."""
        return hashlib.sha256(self.body).hexdigest()[:16]

    def header(self, name: str) -> str:
        """Return one header; "" if there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


def is_asked_twice_at_a_cost(request: Request) -> bool:
    """Return whether it belongs to a sequence, whose state it would change, or reads and writes shared memory.

    A request that cannot be read does neither: no server can read it.
    """
    try:
        described = _http_parameters(request) if request.path else _grpc_parameters(request)
    except Exception:  # whatever a client may send
        return False
    own, tensors = described
    return bool(own.get("sequence_id")) or any("shared_memory_region" in one for one in tensors)


def _http_parameters(request: Request) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    body = unpacked(request.body, request.header("content-encoding"))
    length = request.header("inference-header-content-length")
    described = json.loads(body[: int(length)] if length else body)
    tensors = [*described.get("inputs", []), *described.get("outputs", [])]
    return described.get("parameters", {}), [one.get("parameters", {}) for one in tensors]


def _grpc_parameters(request: Request) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest.FromString(request.body)
    own = {
        key: value.int64_param or value.string_param or value.uint64_param
        for key, value in message.parameters.items()
    }
    return own, [one.parameters for one in (*message.inputs, *message.outputs)]


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without its Content-Encoding, at most `MAX_REQUEST_BYTES` of it.

    :raises ValueError: the encoding is not known.
    :raises zlib.error: the body is damaged.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise ValueError(f"unknown encoding {encoding!r}")
    window = zlib.MAX_WBITS | 16 if encoding == "gzip" else zlib.MAX_WBITS
    return zlib.decompressobj(window).decompress(body, MAX_REQUEST_BYTES)


class RequestQueue:
    """Requests that wait to be compared, limited in number and in bytes, and the counts of all that arrived."""

    def __init__(self, model: str, limit: int) -> None:
        self.model = model
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self._waiting: deque[Request] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()

    def offer(self, request: Request) -> None:
        """Keep a request, or count it as dropped; the sender never waits."""
        self.counts["received"] += 1
        if request.header(MARK):
            self.counts["ignored"] += 1
        elif len(self._waiting) >= self.limit or self._bytes + len(request.body) > MAX_QUEUE_BYTES:
            self.counts["dropped"] += 1
        else:
            self._waiting.append(request)
            self._bytes += len(request.body)
            self._arrived.set()

    def ignore(self) -> None:
        """Count a request that is not an inference request for this model."""
        self.counts["received"] += 1
        self.counts["ignored"] += 1

    def drop(self) -> None:
        """Count a request that is too large to keep."""
        self.counts["received"] += 1
        self.counts["dropped"] += 1

    async def take(self) -> Request:
        """Return the oldest request; wait for one where there is none."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        request = self._waiting.popleft()
        self._bytes -= len(request.body)
        return request
