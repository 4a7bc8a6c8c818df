"""A real S3 protocol on loopback, Airflow connections that point at it, and a small version to publish."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.store.connections import aws_connection, make_bucket
from tests.support.store.lane import DIFFERENCES
from tests.support.store.moto_server import moto_server
from tests.support.store.publication import Publication
from tests.support.store.real_servers import SERVERS

if TYPE_CHECKING:
    from slipway.hooks.s3_store import ModelStoreHook
    from slipway.hooks.triton import TritonHook
    from slipway.registry.registry import StoredSource

_bucket_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what a real server does otherwise."""
    differences = DIFFERENCES.get(os.environ.get("SLIPWAY_TEST_STORE", ""), {})
    for item in items:
        if (reason := differences.get(getattr(item, "originalname", item.name))) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of moto's server; its conditional writes are made atomic, as S3's are.

    With SLIPWAY_TEST_STORE=seaweedfs or versitygw it is a real server (`make store-test`).
    """
    name = os.environ.get("SLIPWAY_TEST_STORE", "")
    server = SERVERS[name](tmp_path_factory.mktemp(name)) if name else moto_server()
    with server as endpoint:
        yield endpoint


@pytest.fixture
def bucket(s3_endpoint: str) -> str:
    """The name of an empty bucket, this test's own."""
    return make_bucket(s3_endpoint, f"slipway-{next(_bucket_numbers)}")


@pytest.fixture
def connections(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection aws_default points at moto's server; boto tries a request that failed only once more."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(s3_endpoint))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")


@pytest.fixture
def store(bucket: str, connections: None) -> ModelStoreHook:
    """The hook on this test's bucket."""
    from slipway.hooks.s3_store import ModelStoreHook

    return ModelStoreHook(bucket)


@pytest.fixture
def cut_off_store(bucket: str, monkeypatch: pytest.MonkeyPatch) -> ModelStoreHook:
    """The hook on a bucket whose server does not listen."""
    from slipway.hooks.s3_store import ModelStoreHook

    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(f"http://{LOOPBACK}:{free_port()}"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return ModelStoreHook(bucket)


@pytest.fixture
def prepare_version(store: ModelStoreHook) -> Callable[..., Publication]:
    """Lays the converted model and the golden set of `digits` into the bucket, as the stages before publishing do."""
    from slipway.registry.registry import StoredSource

    def prepare(
        version: int = 1,
        model: bytes = b"an onnx model",
        config: bytes = b'name: "digits"',
        weight_files: int = 0,
    ) -> Publication:
        contents = {"model.onnx": model, **{f"weights.{n}": bytes([n]) for n in range(weight_files)}}
        golden = f"incoming/digits/{version}/golden.npz"
        store.write(golden, b"a golden set")
        sources: dict[str, bytes | StoredSource] = {"digits/config.pbtxt": config}
        entries = {"digits/config.pbtxt": FileEntry.of(config)}
        for name, content in contents.items():
            work, path = f"work/digits/{version}/convert/{name}", f"digits/{version}/{name}"
            store.write(work, content)
            sources[path], entries[path] = StoredSource(work), FileEntry.of(content)
        manifest = Manifest(
            model="digits",
            version=version,
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            files=entries,
            config_sha256="0" * 64,
            signature=ModelSignature(
                inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),),
                outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
            ),
            source=Provenance(files={"golden.npz": FileEntry.of(b"a golden set")}),
        )
        return Publication(manifest, sources, golden)

    return prepare


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files above 8 MiB are copied in parts of 5 MiB; S3's limits are 5 GiB and 5 MiB."""
    from slipway.hooks import s3_transfer
    from slipway.registry import publisher

    for module in (s3_transfer, publisher):
        monkeypatch.setattr(module, "SINGLE_COPY_LIMIT_BYTES", 8 * 2**20)
    monkeypatch.setattr(s3_transfer, "PART_BYTES", 5 * 2**20)


@pytest.fixture
def hook(store: ModelStoreHook, tmp_path: Path) -> Iterator[TritonHook]:
    """A staging server over this test's bucket, on which nothing is loaded yet."""
    from tests.support.release.release_steps import staging_server

    with staging_server(store, tmp_path) as one:
        yield one
