"""What the tests of the pods' programs share: an S3 on loopback, the images' environments, a tritonserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway_sandbox.host.images import build_image, is_built
from slipway_sandbox.services.triton import TritonServer
from tests.support.pods.servers import running_models, running_store
from tests.support.pods.support import ObjectStore, Pod
from tests.support.serving.triton_install import triton_install


def pytest_configure(config: pytest.Config) -> None:
    """Tests of genai-perf can be chosen or left out: its image is large."""
    config.addinivalue_line("markers", "genai: needs the image genai-perf")


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    """An S3 with an empty bucket."""
    with running_store() as running:
        yield running


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A place in the bucket for this test alone."""
    return f"work/{request.node.name}"


@pytest.fixture(scope="session")
def onnx_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("onnx"), store)


@pytest.fixture(scope="session")
def python_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("python"), store)


@pytest.fixture(scope="session")
def ensemble_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("ensemble"), store)


@pytest.fixture(scope="session")
def score_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("score"), store)


@pytest.fixture(scope="session")
def sklearn_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("sklearn"), store)


@pytest.fixture(scope="session")
def pytorch_pod(store: ObjectStore) -> Pod:
    """Not built here: it is the largest image of all, and `make images` has built it where all tests are run."""
    if not is_built("pytorch"):
        pytest.skip("NOT TESTED, image not built: python -m slipway_sandbox.host.images pytorch")
    return Pod(build_image("pytorch"), store)


@pytest.fixture(scope="session")
def perf_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("perf-analyzer"), store)


@pytest.fixture(scope="session")
def genai_pod(store: ObjectStore) -> Pod:
    """Not built here: the image is large, and only these tests want it."""
    if not is_built("genai-perf"):
        pytest.skip("NOT TESTED, image not built: python -m slipway_sandbox.host.images genai-perf")
    return Pod(build_image("genai-perf"), store)


@pytest.fixture(scope="session")
def smoke_pod(store: ObjectStore) -> Pod:
    """The smoke test's pod, and beside its image the server that the image's base brings on a cluster."""
    triton_install()
    # Where a volume is mounted at /tmp, as in every pod of a release.
    return Pod(build_image("smoke-test"), store, (Path("/tmp"),))


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A tritonserver with small models, all on the Python backend."""
    with running_models(tmp_path_factory.mktemp("triton")) as server:
        yield server
