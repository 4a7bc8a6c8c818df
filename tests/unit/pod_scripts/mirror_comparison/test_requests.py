"""Mirrored requests: which are not asked twice, and how many wait."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from slipway_pod.mirror_comparison import requests as module
from slipway_pod.mirror_comparison.requests import Request, RequestQueue, is_asked_twice_at_a_cost

PATH = "/v2/models/digits/infer"


@pytest.mark.parametrize(
    ("described", "costs"),
    [
        ({"inputs": [{"name": "x"}]}, False),
        ({"inputs": [{"name": "x"}], "parameters": {"sequence_id": 0}}, False),
        ({"inputs": [{"name": "x"}], "parameters": {"sequence_id": "a"}}, True),
        ({"inputs": [{"name": "x", "parameters": {"shared_memory_region": "r"}}]}, True),
        ({"inputs": [], "outputs": [{"parameters": {"shared_memory_region": "r"}}]}, True),
    ],
)
@pytest.mark.parametrize("encoding", ["", "deflate"])
def test_requests_that_must_not_be_asked_twice_are_known(
    described: dict[str, Any], costs: bool, encoding: str
) -> None:
    """A request of a sequence, or with shared memory, is found out, packed or not; others are not."""
    body = json.dumps(described).encode()
    headers = [("Content-Encoding", encoding), ("Inference-Header-Content-Length", str(len(body)))]
    body += b"\x00\x01"
    sent = zlib.compress(body) if encoding else body
    assert is_asked_twice_at_a_cost(Request(sent, tuple(headers), PATH)) is costs


def test_a_sequence_by_grpc_is_known() -> None:
    """The same holds for gRPC, whose parameters are typed."""
    message = service_pb2.ModelInferRequest(model_name="digits")
    assert not is_asked_twice_at_a_cost(Request(message.SerializeToString()))
    message.parameters["sequence_id"].int64_param = 5
    assert is_asked_twice_at_a_cost(Request(message.SerializeToString()))


def test_what_cannot_be_read_is_sent_on() -> None:
    """A body that is no request does no harm: servers refuse it."""
    assert not is_asked_twice_at_a_cost(Request(b"\xff\xff", (), PATH))
    assert not is_asked_twice_at_a_cost(Request(b"\xff\xff"))


async def test_the_inbox_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room is dropped and counted; what was taken makes room again."""
    monkeypatch.setattr(module, "MAX_QUEUE_BYTES", 10)
    queue = RequestQueue("digits", limit=3)
    queue.offer(Request(b"x" * 8))
    queue.offer(Request(b"x" * 3))
    for _ in range(3):
        queue.offer(Request(b""))
    assert queue.counts == {"received": 5, "dropped": 2}
    assert len((await queue.take()).body) == 8
    queue.offer(Request(b"x" * 10))
    assert queue.counts["dropped"] == 2


async def test_the_inbox_hands_each_request_to_one() -> None:
    """Several that wait get one request each."""
    queue = RequestQueue("digits", limit=3)
    takers = [asyncio.create_task(queue.take()) for _ in range(2)]
    await asyncio.sleep(0)
    for body in (b"a", b"b"):
        queue.offer(Request(body))
    assert {one.body for one in await asyncio.gather(*takers)} == {b"a", b"b"}
