"""An emulated cluster for each test, over versions that are published once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from slipway.hooks.inference_service import KServeHook
from slipway_sandbox.host.images import build_image
from tests.support.cluster.emulator import Emulator
from tests.support.serving.clients import HOST
from tests.support.serving.envoy import running_envoy
from tests.support.serving.published import published_versions
from tests.support.serving.serving_stack import NAME, NAMESPACE, ServingStack


@pytest.fixture(scope="session")
def published_bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """S3 with the published versions; yields the AWS_* environment that reads it."""
    with published_versions(tmp_path_factory.mktemp("versions")) as environment:
        yield environment


@pytest_asyncio.fixture
async def serving_stack(
    published_bucket: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[ServingStack]:
    """A cluster in which nothing is deployed yet; a parameter adds to the settings of its KServe."""
    async with running_envoy(tmp_path) as envoy:
        emulator = Emulator(
            tmp_path / "cluster",
            node_env=published_bucket,
            namespaces=[NAMESPACE, "kserve"],
            kserve={
                "router_dir": str(envoy.router.directory),
                "router_admin_url": envoy.router.admin_url,
                "domain": HOST.removeprefix(f"{NAME}.{NAMESPACE}."),
                "gateway_lag_s": 0.3,
                **getattr(request, "param", {}),
            },
        )
        (emulator.folder / "images" / "triton").symlink_to(build_image("triton"))
        connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(emulator.kubeconfig)}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        await asyncio.to_thread(emulator.start)
        try:
            yield ServingStack(emulator, envoy, KServeHook(NAME, NAMESPACE))
        finally:
            await asyncio.to_thread(emulator.stop)
