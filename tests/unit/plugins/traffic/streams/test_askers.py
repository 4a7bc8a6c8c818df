"""What a server may send that no Triton sends: each is an error of the answer, and none ends the watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from aiohttp import web
from tritonclient.grpc import service_pb2, service_pb2_grpc

from slipway.hooks.ingress import Endpoint
from slipway.traffic.streams import answer as limits
from slipway.traffic.streams import generate_streams, grpc_streams
from slipway.traffic.streams.answer import StreamedAnswer
from slipway.traffic.streams.generate_streams import GenerateStreams
from slipway.traffic.streams.grpc_streams import GrpcStreams

Events = Callable[[web.StreamResponse], Awaitable[None]]


async def events_asked(send: Events, content_type: str = "text/event-stream") -> StreamedAnswer:
    """Ask a server that answers HTTP 200 and then what `send` writes."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        await send(response)
        return response

    app = web.Application()
    app.router.add_post("/v2/models/digits/generate_stream", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    streams = GenerateStreams(
        Endpoint(f"http://127.0.0.1:{runner.addresses[0][1]}", "digits.example"), "digits", ("y",), 0.5
    )
    try:
        return await asyncio.wait_for(streams.ask(b"{}"), 5.0)
    finally:
        await streams.close()
        await runner.cleanup()


def written(*parts: bytes) -> Events:
    async def send(response: web.StreamResponse) -> None:
        for part in parts:
            await response.write(part)

    return send


async def _cut_off(response: web.StreamResponse) -> None:
    await response.write(b'data: {"y": 1}\n\n')
    assert response._payload_writer is not None
    transport = response._payload_writer.transport
    assert transport is not None
    transport.close()


async def _hang(response: web.StreamResponse) -> None:
    await response.write(b'data: {"y": 1}\n\n')
    await asyncio.sleep(2)


async def test_events_in_any_pieces_are_read() -> None:
    """Lines that come in parts, comments, other fields and carriage returns are as good."""
    answer = await events_asked(
        written(b": hello\r\nid: 1\r\nda", b'ta: {"y": 1}\r\n\r\n', b'data:{"y": 2}\n\n')
    )
    assert (answer.responses, answer.fault) == (2, "")


@pytest.mark.parametrize(
    ("send", "fault"),
    [
        (written(b'data: {"y": 1}\n\n', b'data: {"error": "lost"}\n\n'), "lost"),
        (written(b'data: {"error": ""}\n\n'), "without a message"),
        (written(b"data: [1]\n\n"), "not a JSON object"),
        (written(b"data: {y\n\n"), "not JSON"),
        (written(b"data: " + 100_000 * b"[" + b"\n\n"), "not JSON"),
        (written(b'data: {"y": 1}\n\n', b'data: {"y"'), "ended in the middle of an event"),
        (written(b'data: {"z": 1}\n\n'), "no output y in 1 responses"),
        (written(), "no output y in 0 responses"),
        (_cut_off, "Error"),
        (_hang, "events did not end in time, after 1 of them"),
    ],
)
async def test_events_that_are_no_answer(send: Events, fault: str) -> None:
    """After HTTP 200: an error, no JSON, half an event, no output, no end."""
    answer = await events_asked(send)
    assert fault in answer.fault


async def test_a_page_is_no_stream_of_events() -> None:
    """A log-in page comes with HTTP 200 as well."""
    assert "text/html" in (await events_asked(written(b"<html>"), "text/html")).fault


async def test_an_answer_without_bound_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes or events for one request are read, and no more."""
    monkeypatch.setattr(generate_streams, "RESPONSES_LIMIT", 3)
    assert "more than 3 events" in (await events_asked(written(4 * b'data: {"y": 1}\n\n'))).fault
    monkeypatch.setattr(generate_streams, "ANSWER_BYTES_LIMIT", 100)
    assert "bytes" in (await events_asked(written(200 * b"x"))).fault
    assert limits.ANSWER_BYTES_LIMIT > 100


# --- gRPC ---

Message = service_pb2.ModelStreamInferResponse


def message(is_last: bool = False, output: str = "y") -> Any:
    response = service_pb2.ModelInferResponse(id="1")
    if output:
        response.outputs.add(name=output, datatype="FP32", shape=[1])
    response.parameters["triton_final_response"].bool_param = is_last
    return Message(infer_response=response)


@asynccontextmanager
async def serving(*messages: Any, status: grpc.StatusCode | None = None) -> AsyncIterator[GrpcStreams]:
    """A server that sends these messages to each request, then ends the stream."""

    class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
        async def ModelStreamInfer(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
            await context.read()
            for one in messages:
                yield one
            if status is not None:
                await context.abort(status, "so be it")

    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    streams = GrpcStreams(Endpoint(f"http://127.0.0.1:{port}", "digits.example"), ("y",), 2.0)
    try:
        yield streams
    finally:
        await streams.close()
        await server.stop(0)


@pytest.mark.parametrize(
    ("messages", "status", "fault"),
    [
        ([message(), message(is_last=True)], None, ""),
        ([message(), message(is_last=True, output="")], None, ""),
        ([message()], None, "the stream ended before the last response"),
        ([], None, "the stream ended before the last response"),
        ([message(is_last=True, output="")], None, "no output y in 0 responses"),
        ([message(is_last=True, output="z")], None, "no output y in 1 responses"),
        ([message(), Message(error_message="lost")], None, "lost"),
        ([message()], grpc.StatusCode.INTERNAL, "INTERNAL: so be it"),
        ([message(is_last=True)], grpc.StatusCode.INTERNAL, "INTERNAL: so be it"),
    ],
)
async def test_how_a_grpc_stream_may_end(
    messages: list[Any], status: grpc.StatusCode | None, fault: str
) -> None:
    """Good is an answer with the outputs, a last response that says so, and a stream that ends without an error."""
    async with serving(*messages, status=status) as streams:
        answer = await asyncio.wait_for(streams.ask(b""), 5.0)
    assert answer.fault == fault


async def test_a_grpc_answer_without_bound_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many responses to one request are read, and no more."""
    monkeypatch.setattr(grpc_streams, "RESPONSES_LIMIT", 3)
    async with serving(*[message()] * 5) as streams:
        assert "more than 3 responses" in (await streams.ask(b"")).fault
