"""Requests over Triton's gRPC streams (`ModelStreamInfer`), each over a stream of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from slipway.hooks.grpc_live.channel import SERVICE, open_channel
from slipway.hooks.ingress import Endpoint
from slipway.traffic.streams.answer import (
    ANSWER_BYTES_LIMIT,
    RESPONSES_LIMIT,
    StreamedAnswer,
    clipped,
    missing_outputs,
)

if TYPE_CHECKING:
    pass

_METHOD = f"{SERVICE}/ModelStreamInfer"
_IS_LAST = "triton_final_response"
# How long a stream may take to end after its last response.
_END_LIMIT_S = 1.0


class GrpcStreams:
    """gRPC streams to one revision.

    :param endpoint: where it is reached, and by which authority.
    :param outputs: what the responses to a request must hold, all together.
    :param timeout_s: limit from a request to its last response.
    """

    def __init__(self, endpoint: Endpoint, outputs: Sequence[str], timeout_s: float) -> None:
        # The clients are imported by what uses them: every parse of a DAG would pay for them.
        import grpc
        from tritonclient.grpc import service_pb2

        self._outputs, self._timeout_s = tuple(outputs), timeout_s
        self._channel = open_channel(endpoint, ANSWER_BYTES_LIMIT)
        self._stream = self._channel.stream_stream(
            _METHOD, response_deserializer=service_pb2.ModelStreamInferResponse.FromString
        )
        self._error, self._end = grpc.aio.AioRpcError, grpc.aio.EOF

    async def ask(self, body: bytes) -> StreamedAnswer:
        """Stream one request; the last response to it must come within the limit."""
        reading = _Reading(self._outputs)
        call = self._stream(timeout=self._timeout_s)
        try:
            await call.write(body)
            while not reading.is_over:
                response = await call.read()
                if response is self._end:
                    reading.fault = "the stream ended before the last response"
                    break
                reading.take(response)
            await call.done_writing()
            with suppress(TimeoutError):
                # What the stream itself ends with is the client's error as well.
                await asyncio.wait_for(call.read(), _END_LIMIT_S)
        except self._error as error:
            reading.fault = reading.fault or clipped(f"{error.code().name}: {error.details()}")
        finally:
            call.cancel()
        return reading.answer()

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close(None)


class _Reading:
    """One answer, response by response."""

    def __init__(self, outputs: tuple[str, ...]) -> None:
        self._began = self._last_at = time.perf_counter()
        self._wanted, self._seen = outputs, set[str]()
        self._responses = self._bytes = self._messages = 0
        self._is_whole = False
        self.fault = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more has to be read."""
        return self._is_whole or bool(self.fault)

    def take(self, message: Any) -> None:
        """Take in one message of the stream."""
        self._last_at = time.perf_counter()
        response = message.infer_response
        self._messages += 1
        self._bytes += message.ByteSize()
        if message.error_message:
            self.fault = clipped(message.error_message)
        elif self._messages > RESPONSES_LIMIT or self._bytes > ANSWER_BYTES_LIMIT:
            self.fault = (
                f"more than {RESPONSES_LIMIT} responses or {ANSWER_BYTES_LIMIT} bytes for one request"
            )
        # The last response may say only that it is the last.
        self._responses += bool(response.outputs)
        self._seen |= {output.name for output in response.outputs}
        self._is_whole = _IS_LAST in response.parameters and response.parameters[_IS_LAST].bool_param

    def answer(self) -> StreamedAnswer:
        """Return what came of it."""
        fault = self.fault or missing_outputs(self._wanted, self._seen, self._responses)
        ended = time.perf_counter() if fault else self._last_at
        return StreamedAnswer(ended - self._began, self._responses, fault)
