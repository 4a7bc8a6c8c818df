"""The way to an object store, shut and opened, and what is seen through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from benchmarks.chaos.gates import Loop
from benchmarks.fleet.gates import StoreGate
from benchmarks.processes import s3_client
from tests.support.store.moto_server import moto_server

KEY = "repository/digits_v2/2/model onnx+1"


@pytest.fixture
def gate() -> Iterator[StoreGate]:
    """A gate to a store that has one object."""
    with moto_server() as address:
        store = s3_client(address)
        store.create_bucket(Bucket="bench")
        store.put_object(Bucket="bench", Key=KEY, Body=b"right")
        loop = Loop()
        gate = StoreGate(loop, address)
        yield gate
        gate.close()
        loop.close()


def read(gate: StoreGate) -> bytes:
    """Return the object as it is seen through the gate, asked for once."""
    once = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=5)
    client = s3_client(gate.url, once)
    content: bytes = client.get_object(Bucket="bench", Key=KEY)["Body"].read()
    return content


def test_everything_passes_an_open_gate(gate: StoreGate) -> None:
    """Reads, writes, listings and questions, as they are."""
    client = s3_client(gate.url)
    client.put_object(Bucket="bench", Key="other", Body=b"x" * 1000)
    assert read(gate) == b"right"
    assert client.head_object(Bucket="bench", Key="other")["ContentLength"] == 1000
    assert [one["Key"] for one in client.list_objects_v2(Bucket="bench")["Contents"]] == ["other", KEY]


def test_nobody_passes_a_shut_gate_until_it_is_opened(gate: StoreGate) -> None:
    """The store is gone for whoever goes that way, also over a connection that was open."""
    assert read(gate) == b"right"
    gate.shut()
    gate.shut()
    with pytest.raises(BotoCoreError):
        read(gate)
    gate.open()
    gate.open()
    assert read(gate) == b"right"


def test_an_object_can_look_wrong_through_a_gate(gate: StoreGate) -> None:
    """What lies in the store stays as it is."""
    gate.show(lambda path, content: content.replace(b"right", b"wrong"))
    assert read(gate) == b"wrong"
    gate.show(None)
    assert read(gate) == b"right"
