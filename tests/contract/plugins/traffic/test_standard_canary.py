"""Canaries in KServe's Standard mode, by our own hook: the emulated cluster, real Tritons and a real Envoy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from slipway.hooks.inference_service import KServeHook
from slipway.traffic.reconciler import look

from include.model_release.errors import ForeignChangeError
from include.model_release.rollout.next_action import (
    FirstDeploy,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Withdraw,
    next_action,
)
from include.model_release.rollout.preflight import ClusterConfig, preflight
from include.model_release.rollout.standard.view import backend_name, predictor_name
from tests.support.cluster.emulator import Emulator
from tests.support.serving.clients import HOST, ask_http
from tests.support.serving.envoy import running_envoy
from tests.support.serving.published import BETTER, BROKEN, GOOD, published_versions
from tests.support.serving.serving_stack import NAME, NAMESPACE, TRITON, ServingStack, manifest

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio]

STABLE = backend_name(NAME, "")
CANDIDATE = backend_name(NAME, predictor_name(BETTER))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """S3 with the published versions; yields the AWS_* environment that reads it."""
    with published_versions(tmp_path_factory.mktemp("versions")) as environment:
        yield environment


@pytest_asyncio.fixture
async def world(
    bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[ServingStack]:
    """A cluster in which nothing is deployed yet; a parameter adds to the settings of its KServe."""
    async with running_envoy(tmp_path) as envoy:
        emulator = Emulator(
            tmp_path / "cluster",
            node_env=bucket,
            namespaces=[NAMESPACE, "kserve"],
            kserve={
                "router_dir": str(envoy.router.directory),
                "router_admin_url": envoy.router.admin_url,
                "domain": HOST.removeprefix(f"{NAME}.{NAMESPACE}."),
                "gateway_lag_s": 0.3,
                **getattr(request, "param", {}),
            },
        )
        (emulator.folder / "images" / "triton").symlink_to(TRITON)
        connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(emulator.kubeconfig)}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        await asyncio.to_thread(emulator.start)
        try:
            yield ServingStack(emulator, envoy, KServeHook(NAME, NAMESPACE))
        finally:
            await asyncio.to_thread(emulator.stop)


async def test_whole_canary_is_promoted_and_fails_no_request(world: ServingStack) -> None:
    """First version, a canary at 20 and 50 %, its promotion: users get what the routes say, and every answer."""
    first = await world.reach(FirstDeploy(manifest(GOOD)))
    assert first.observed is not None
    assert first.observed.traffic == {STABLE: 100}
    with world.load() as load:
        await world.reach(StartCanary(BETTER, 20, release_id="table-2", version=2))
        assert world.traffic() == {STABLE: 80, CANDIDATE: 20}
        await world.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        await world.reach(ShiftWeight(50, BETTER))
        assert world.traffic() == {STABLE: 50, CANDIDATE: 50}
        turn = await world.reach(Promote(BETTER))
        asked = sum(load.answers.values())
        await world.until(lambda: sum(load.answers.values()) > asked + 50, "answers after the promotion")
    assert load.failures == []
    assert turn.observed is not None
    assert turn.observed.traffic == {CANDIDATE: 100}
    assert await asyncio.to_thread(ask_http, world.envoy.ingress_port) == (200, 3.0)


async def test_canary_is_rolled_back_and_fails_no_request(world: ServingStack) -> None:
    """From 50 % back to the stable version alone, under load; nothing of the canary is left in the object."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    with world.load() as load:
        await world.reach(StartCanary(BETTER, 50))
        await world.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        turn = await world.reach(RollBack(GOOD, BETTER))
        load.answers.clear()
        await world.until(lambda: load.answers["http 2"] > 50, "answers after the rollback")
        assert load.answers["http 3"] == 0
    assert load.failures == []
    assert turn.observed is not None
    assert turn.observed.traffic == {STABLE: 100}
    assert "canary" not in (world.hook.get() or {})["spec"]


async def test_promoted_version_is_rolled_back_and_fails_no_request(world: ServingStack) -> None:
    """The version before comes up beside the one to leave, takes everyone, and becomes the stable one."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    await world.reach(StartCanary(BETTER, 50))
    await world.reach(Promote(BETTER))
    with world.load() as load:
        turn = await world.reach(RollBack(GOOD, BETTER))
    assert load.failures == []
    assert turn.observed is not None
    assert turn.observed.traffic == {backend_name(NAME, predictor_name(GOOD)): 100}
    assert await asyncio.to_thread(ask_http, world.envoy.ingress_port) == (200, 2.0)


async def test_removing_a_canary_at_once_fails_requests(world: ServingStack) -> None:
    """The obvious rollback deletes the canary's Deployment before the route leads away from it."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    await world.reach(StartCanary(BETTER, 50))
    with world.load() as load:
        await world.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        world.patch({"canary": None})
        await world.until(lambda: world.traffic() == {STABLE: 100}, "the stable version alone")
    assert load.failures


async def test_percent_of_the_other_mode_sends_everyone_to_the_new_version(world: ServingStack) -> None:
    """`canaryTrafficPercent` is ignored: 10 % becomes everybody; our canary is refused while it stands there."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    world.patch({"predictor": {"canaryTrafficPercent": 10, "model": {"storageUri": BETTER}}})
    port = world.envoy.ingress_port
    await world.until(lambda: ask_http(port) == (200, 3.0), "the new version's answer")
    assert {ask_http(port) for _ in range(20)} == {(200, 3.0)}
    with pytest.raises(ForeignChangeError, match="silently ignored"):
        await world.reach(StartCanary(GOOD, 10))


async def test_candidate_that_does_not_load_gets_nobody(world: ServingStack) -> None:
    """The spec gives it 20 %, the status repeats that, and the routes lead everyone to the stable version."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    assert world.hook.patch(_start_patch(world, BROKEN))
    await world.until(lambda: bool(_echo(world)), "the controller's note of it")
    assert _echo(world) == [{"name": predictor_name(BROKEN), "ready": False, "trafficPercent": 20}]
    assert world.traffic() == {STABLE: 100}
    await world.reach(RollBack(GOOD, BROKEN))
    assert world.traffic() == {STABLE: 100}


def _start_patch(world: ServingStack, uri: str) -> dict[str, Any]:
    action = next_action(StartCanary(uri, 20), look(world.hook))
    assert isinstance(action, Patch)
    return dict(action.body)


def _echo(world: ServingStack) -> list[dict[str, Any]]:
    service = world.hook.get()
    assert service is not None
    found: list[dict[str, Any]] = service["status"].get("canaryStatuses", [])
    return found


@pytest.mark.parametrize("world", [{"enable_gateway_api": False}], indirect=True)
async def test_no_canary_where_no_route_carries_weights(world: ServingStack) -> None:
    """Without Gateway API the version is served, but there is no HTTPRoute, and a canary is refused with the reason."""
    await asyncio.to_thread(world.hook.create, manifest(GOOD))
    port = world.envoy.ingress_port
    await world.until(lambda: ask_http(port) == (200, 2.0), "the version to be served")
    assert world.hook.routes() == []
    (problem,) = preflight(manifest(GOOD), config=world.hook.cluster_config())
    assert "enableGatewayApi" in problem
    with pytest.raises(ForeignChangeError, match="enableGatewayApi"):
        await world.reach(StartCanary(BETTER, 20))


async def test_restarted_cluster_goes_on_with_the_canary(world: ServingStack) -> None:
    """After a crash of the whole cluster the weights are what they were as soon as the servers are back."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    await world.reach(StartCanary(BETTER, 20))
    world.emulator.kill()
    await asyncio.to_thread(world.emulator.start)
    await world.reach(ShiftWeight(20, BETTER))
    port = world.envoy.ingress_port
    await world.until(
        lambda: {ask_http(port) for _ in range(30)} == {(200, 2.0), (200, 3.0)}, "both versions"
    )


async def test_withdrawn_service_leaves_no_route(world: ServingStack) -> None:
    """Deleting the first version takes its HTTPRoutes and its answers away."""
    await world.reach(FirstDeploy(manifest(GOOD)))
    assert len(world.hook.routes()) == 2
    assert world.hook.cluster_config() == ClusterConfig(gateway_api=True, creates_routes=True)
    await world.reach(Withdraw(GOOD))
    await world.until(lambda: world.hook.routes() == [], "the routes to be gone")
    await world.until(lambda: ask_http(world.envoy.ingress_port)[0] == 404, "the host name to be unknown")
