"""What the tests of the pods' programs share: an S3 on loopback, the images' environments, a tritonserver."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from include.sandbox.host.images import build_image, is_built
from include.sandbox.services.triton import TritonPorts, TritonServer
from tests.support.pods.support import BUCKET, PROJECT_ROOT, ObjectStore, Pod
from tests.support.serving.triton_install import triton_install


def pytest_configure(config: pytest.Config) -> None:
    """Tests of genai-perf can be chosen or left out: its image is large."""
    config.addinivalue_line("markers", "genai: needs the image genai-perf")


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    """An S3 with an empty bucket."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    client.create_bucket(Bucket=BUCKET)
    yield ObjectStore(endpoint, client)
    server.stop()


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
def sklearn_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("sklearn"), store)


@pytest.fixture(scope="session")
def pytorch_pod(store: ObjectStore) -> Pod:
    """Not built here: it is the largest image of all, and `make images` has built it where all tests are run."""
    if not is_built("pytorch"):
        pytest.skip("NOT TESTED, image not built: python -m include.sandbox.host.images pytorch")
    return Pod(build_image("pytorch"), store)


@pytest.fixture(scope="session")
def perf_pod(store: ObjectStore) -> Pod:
    return Pod(build_image("perf-analyzer"), store)


@pytest.fixture(scope="session")
def genai_pod(store: ObjectStore) -> Pod:
    """Not built here: the image is large, and only these tests want it."""
    if not is_built("genai-perf"):
        pytest.skip("NOT TESTED, image not built: python -m include.sandbox.host.images genai-perf")
    return Pod(build_image("genai-perf"), store)


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A tritonserver with the small models beside this file, all on the Python backend."""
    home = tmp_path_factory.mktemp("triton")
    repository = home / "models"
    for source in sorted((PROJECT_ROOT / "tests" / "support" / "pods" / "models").iterdir()):
        version = repository / source.name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text((source / "model.py").read_text())
        (repository / source.name / "config.pbtxt").write_text((source / "config.pbtxt").read_text())
    log = home / "triton.log"
    install = triton_install()
    server = TritonServer(install, repository, TritonPorts.free(), log_path=log, exit_timeout_s=2)
    server.start()
    try:
        server.wait_ready(120)
        yield server
    finally:
        server.stop()
