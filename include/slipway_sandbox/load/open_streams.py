"""Clients that keep gRPC streams open and ask on them again and again, and who answered when.

A weight is about new requests: what is asked on an open stream goes where the stream began, until that server ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2_grpc

from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.load.clients import CHANNEL_OPTIONS, grpc_request, revision_in
from slipway_sandbox.load.request_set import RequestSet

_REOPEN_S = 0.1


@dataclass(frozen=True)
class StreamAnswer:
    """One answer on a stream: when (unix seconds), and of which revision by the router's own word."""

    at: float
    revision: str | None


@dataclass(frozen=True)
class StreamEnd:
    """A stream that ended before its client wanted that; `revision` is None if it reached none."""

    at: float
    revision: str | None
    error: str


@dataclass
class OpenStreams:
    """So many streams, each on its own connection, each asked every `pause_s`; one that ends is opened again."""

    requests: RequestSet
    port: int
    authority: str
    model: str
    count: int = 8
    pause_s: float = 0.05
    answers: list[StreamAnswer] = field(default_factory=list)
    ends: list[StreamEnd] = field(default_factory=list)
    _on: dict[int, str | None] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._keep_open, daemon=True) for _ in range(self.count)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)

    def open_on(self, revision: str) -> int:
        """Return how many streams are open on a revision, and were answered there."""
        return list(self._on.values()).count(revision)

    def answered(self, revision: str, since: float = 0.0) -> int:
        """Return how many answers a revision gave from a moment on."""
        return sum(one.revision == revision and one.at >= since for one in list(self.answers))

    def _keep_open(self) -> None:
        options = [*CHANNEL_OPTIONS, ("grpc.default_authority", self.authority)]
        while not self._stop.is_set():
            with grpc.insecure_channel(f"{LOOPBACK}:{self.port}", options=options) as channel:
                self._one(service_pb2_grpc.GRPCInferenceServiceStub(channel))
            self._stop.wait(_REOPEN_S)

    def _one(self, stub: Any) -> None:
        """Keep one stream open for as long as it lasts."""
        revision: str | None = None
        call = stub.ModelStreamInfer(self._asked())
        try:
            revision = revision_in(call.initial_metadata())
            for _ in call:
                # An error inside the stream is the revision's answer too.
                self.answers.append(StreamAnswer(time.time(), revision))
                self._on[threading.get_ident()] = revision
        except grpc.RpcError as error:
            if not self._stop.is_set():
                self.ends.append(StreamEnd(time.time(), revision, str(error)[:300]))
        finally:
            self._on.pop(threading.get_ident(), None)
            call.cancel()

    def _asked(self) -> Iterator[Any]:
        request = grpc_request(self.model, self.requests, 0)
        while not self._stop.is_set():
            yield request
            self._stop.wait(self.pause_s)
