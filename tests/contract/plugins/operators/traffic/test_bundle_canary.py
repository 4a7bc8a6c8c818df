"""A canary of an ensemble in the emulated KServe: real Tritons over whole published repositories, a real Envoy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from slipway.hooks.s3_store import ModelStoreHook
from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.host.images import build_image
from slipway_sandbox.kserve.controller import KServeSettings
from slipway_sandbox.kserve.revisions import RunPolicy
from tests.support.release.ensemble_release import ENSEMBLE, published
from tests.support.release.release_steps import Release
from tests.support.serving.clients import HOST, ask_http
from tests.support.serving.ensembles import ensemble_files
from tests.support.serving.envoy import running_envoy
from tests.support.serving.kserve_cluster import FIRST, NAME, NAMESPACE, SECOND, Cluster

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

# Any mixture of the two versions' members would answer with 5 or 6.
OLD, NEW = {"scale": 1.0, "lookup": 2.0}, {"scale": 3.0, "lookup": 5.0}


@pytest_asyncio.fixture
async def cluster(store: ModelStoreHook, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The emulated KServe over this test's bucket."""
    environment = {
        "AWS_ACCESS_KEY_ID": "slipway-test",
        "AWS_SECRET_ACCESS_KEY": "slipway-test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": store.client.meta.endpoint_url,
    }
    async with running_envoy(tmp_path) as envoy:
        settings = KServeSettings(
            state_dir=tmp_path / "kserve",
            triton_venv=build_image("triton"),
            router_dir=envoy.router.directory,
            router_admin_url=envoy.router.admin_url,
            domain=HOST.removeprefix(f"{NAME}.{NAMESPACE}."),
            environment=environment,
            scale_down_grace_s=0.5,
            run_policy=RunPolicy(restart_pauses_s=(0.5,), exit_timeout_s=2),
        )
        one = Cluster(ObjectStore(), settings, envoy)
        one.start()
        try:
            yield one
        finally:
            await one.stop()


async def test_canary_of_an_ensemble_is_one_unit(store: ModelStoreHook, cluster: Cluster) -> None:
    """Two revisions of an ensemble share the traffic, each by its own members; back at 0 none answers by the new."""
    uris = []
    for version, factors in ((1, OLD), (2, NEW)):
        release = Release(store, ENSEMBLE.replace("prices", NAME), version)
        await asyncio.to_thread(published, release, ensemble_files(**factors, top=NAME))
        uris.append(release.release_run.storage_uri)
    cluster.create(uris[0])
    await cluster.until_shares(first=100)
    assert await cluster.factor() == 2.0
    cluster.patch(uris[1], percent=50)
    await cluster.until_shares(second=50, first=50)
    shared = {await cluster.factor() for _ in range(40)}
    assert shared == {2.0, 15.0}
    for revision, factor in ((FIRST, 2.0), (SECOND, 15.0)):
        port = cluster.run_of(revision)._server.ports.http
        assert await asyncio.to_thread(ask_http, port) == (200, factor)
    cluster.patch(percent=0)
    await cluster.until_shares(second=0, first=100)
    assert {await cluster.factor() for _ in range(20)} == {2.0}
