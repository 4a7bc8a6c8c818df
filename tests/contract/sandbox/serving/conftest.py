"""The real programs that the serving sandbox is made of, started for the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.host.images import build_image
from slipway_sandbox.kserve.controller import KServeSettings
from slipway_sandbox.kserve.revisions import RunPolicy
from slipway_sandbox.services.routing import Mirror
from slipway_sandbox.services.triton import TritonPorts
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.serving.clients import HOST
from tests.support.serving.envoy import Envoy, running_envoy
from tests.support.serving.kserve_cluster import NAME, NAMESPACE, Cluster
from tests.support.serving.models import write_repository
from tests.support.serving.published import published_versions
from tests.support.serving.triton_install import triton_install


@pytest_asyncio.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[Envoy]:
    """A fresh Envoy that routes nothing yet."""
    async with running_envoy(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def install() -> TritonInstall:
    """The private server folder, built from the Triton image's environment."""
    return triton_install()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose model doubles."""
    return write_repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """S3 with three published versions; yields the AWS_* environment that reads it."""
    with published_versions(tmp_path_factory.mktemp("versions")) as environment:
        yield environment


@pytest_asyncio.fixture
async def cluster(envoy: Envoy, bucket: dict[str, str], tmp_path: Path) -> AsyncIterator[Cluster]:
    """A running controller with nothing to do yet; nobody listens where it mirrors to."""
    mirror_ports = TritonPorts.free()
    settings = KServeSettings(
        state_dir=tmp_path / "kserve",
        triton_venv=build_image("triton"),
        router_dir=envoy.router.directory,
        router_admin_url=envoy.router.admin_url,
        domain=HOST.removeprefix(f"{NAME}.{NAMESPACE}."),
        environment=bucket,
        scale_down_grace_s=0.5,
        mirror=Mirror(mirror_ports.http, mirror_ports.grpc),
        run_policy=RunPolicy(restart_pauses_s=(0.5,), exit_timeout_s=5),
    )
    one = Cluster(ObjectStore(), settings, envoy)
    one.start()
    try:
        yield one
    finally:
        await one.stop()
