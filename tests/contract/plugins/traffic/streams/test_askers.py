"""Streams of a real tritonserver, by both of its interfaces, from models that go wrong inside the stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipway.hooks.ingress import Endpoint
from slipway.traffic.golden_requests.grpc_body import grpc_body
from slipway.traffic.streams.answer import StreamAsker, StreamedAnswer
from slipway.traffic.streams.generate_streams import GenerateStreams, generate_body
from slipway.traffic.streams.grpc_streams import GrpcStreams
from slipway_core.tensors import TensorSpec
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.models import table_model, write_repository
from tests.support.serving.stream_model import stream_model_files
from tests.support.serving.text_model import text_model_files
from tests.support.serving.triton_install import triton_install

pytestmark = pytest.mark.timeout(600)

X = (TensorSpec(name="x", datatype="FP32", shape=(1,)),)
ROW = {"x": np.array([3.0], np.float32)}
FAULTS = {
    "good": "",
    "error": "error",
    "error-later": "error after the first",
    "hang-later": "hang after the first",
    "silent": "silence",
    "nothing": "nothing",
}
PROTOCOLS = ("grpc", "generate_stream")


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A server with a model for each way to fail, one that writes text, and one that sends single responses."""
    root = tmp_path_factory.mktemp("repository")
    for name, fault in FAULTS.items():
        _write(root, stream_model_files(name, 1, fault))
    _write(root, _text_model(root))
    write_repository(root, versions={1: table_model(2.0)})
    server = TritonServer(
        triton_install(),
        root,
        TritonPorts.free(),
        mode="none",
        log_path=tmp_path_factory.mktemp("log") / "log",
        exit_timeout_s=1,
    )
    server.start()
    try:
        server.wait_ready(60)
        yield server
    finally:
        server.stop()


def _text_model(root: Path) -> dict[str, bytes]:
    files = text_model_files("writer", 1, {"hello": ["good", "day"]})
    words = str(root / "writer" / "1" / "words.json").encode()
    return {
        path: content.replace(b"/mnt/models/writer/1/words.json", words) for path, content in files.items()
    }


def _write(root: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def asker(
    triton: TritonServer, protocol: str, model: str, output: str = "y", limit_s: float = 1.0
) -> StreamAsker:
    port = triton.ports.grpc if protocol == "grpc" else triton.ports.http
    endpoint = Endpoint(f"http://127.0.0.1:{port}", "model.example")
    if protocol == "grpc":
        return GrpcStreams(endpoint, (output,), limit_s)
    return GenerateStreams(endpoint, model, (output,), limit_s)


async def asked(
    triton: TritonServer,
    protocol: str,
    model: str,
    inputs: tuple[TensorSpec, ...] = X,
    row: Any = ROW,
    **more: Any,
) -> StreamedAnswer:
    body = grpc_body(model, inputs, row) if protocol == "grpc" else generate_body(inputs, row)
    one = asker(triton, protocol, model, **more)
    try:
        return await asyncio.wait_for(one.ask(body), 60.0)
    finally:
        await one.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_answer_in_pieces_is_good(triton: TritonServer, protocol: str) -> None:
    """Each response with the output counts; the empty last one ends the answer."""
    answer = await asked(triton, protocol, "good")
    assert (answer.responses, answer.fault) == (2, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("model", "fault", "responses"),
    [
        ("error", "drawn to fail", 0),
        ("error-later", "lost the thread", 1),
        ("hang-later", "DEADLINE|events did not end in time", 1),
        ("silent", "DEADLINE|events did not end in time", 0),
        ("nothing", "no output y in 0 responses", 0),
        ("absent", "unknown model", 0),
    ],
)
async def test_what_goes_wrong_inside_a_stream_is_an_error(
    triton: TritonServer, protocol: str, model: str, fault: str, responses: int
) -> None:
    """An error message at once or after the first response, no last response in time, an answer without outputs."""
    answer = await asked(triton, protocol, model)
    assert re.search(fault, answer.fault)
    # Where the one before still hangs, this one has not begun.
    assert answer.responses <= responses


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_texts_are_streamed_in_a_batch_of_one(triton: TritonServer, protocol: str) -> None:
    """A golden row of a model that writes text is sent as it is asked by users."""
    texts = (TensorSpec(name="text_input", datatype="BYTES", shape=(-1, 1)),)
    row = {"text_input": np.array([[b"hello"]], object)}
    answer = await asked(triton, protocol, "writer", texts, row, output="text_output")
    assert (answer.responses, answer.fault) == (2, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_model_of_single_responses_answers_over_streams_too(
    triton: TritonServer, protocol: str
) -> None:
    """Its one response is the last one; several values of an input go along."""
    inputs = (TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),)
    good, bad = (np.array([[first, 2.0]], np.float32) for first in (1.0, 12.0))
    answer = await asked(triton, protocol, "table", inputs, {"x": good})
    assert (answer.responses, answer.fault) == (1, "")
    failed = await asked(triton, protocol, "table", inputs, {"x": bad})
    assert failed.fault


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_nobody_listening_is_an_error(
    triton: TritonServer, protocol: str, unused_tcp_port: int
) -> None:
    """A way that leads nowhere is one of the answer's faults, and no crash."""
    endpoint = Endpoint(f"http://127.0.0.1:{unused_tcp_port}", "model.example")
    one: StreamAsker = GrpcStreams(endpoint, ("y",), 1.0)
    if protocol == "generate_stream":
        one = GenerateStreams(endpoint, "good", ("y",), 1.0)
    answer = await asyncio.wait_for(one.ask(b""), 60.0)
    await one.close()
    assert answer.fault
