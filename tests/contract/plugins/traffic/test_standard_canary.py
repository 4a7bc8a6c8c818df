"""Canaries in KServe's Standard mode, by our own hook: the emulated cluster, real Tritons and a real Envoy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slipway.traffic.reconciler import observe_service
from slipway_core.errors import ForeignChangeError
from slipway_core.rollout.dialects.registry import preflight
from slipway_core.rollout.dialects.standard.preflight import CONFIG_MAP, ClusterConfig, cluster_config
from slipway_core.rollout.dialects.standard.resources import routes_of
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name
from slipway_core.rollout.next_action import (
    FirstDeploy,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Withdraw,
    next_action,
)
from tests.support.serving.clients import ask_http
from tests.support.serving.published import BETTER, BROKEN, GOOD
from tests.support.serving.serving_stack import NAME, ServingStack, manifest

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

STABLE = backend_name(NAME, "")
CANDIDATE = backend_name(NAME, predictor_name(BETTER))


async def test_whole_canary_is_promoted_and_fails_no_request(serving_stack: ServingStack) -> None:
    """First version, a canary at 20 and 50 %, its promotion: users get what the routes say, and every answer."""
    first = await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    assert first.observed is not None
    assert first.observed.traffic == {STABLE: 100}
    with serving_stack.load() as load:
        await serving_stack.reach(StartCanary(BETTER, 20, release_id="table-2", version=2))
        assert serving_stack.traffic() == {STABLE: 80, CANDIDATE: 20}
        await serving_stack.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        await serving_stack.reach(ShiftWeight(50, BETTER))
        assert serving_stack.traffic() == {STABLE: 50, CANDIDATE: 50}
        turn = await serving_stack.reach(Promote(BETTER))
        asked = sum(load.answers.values())
        await serving_stack.until(
            lambda: sum(load.answers.values()) > asked + 50, "answers after the promotion"
        )
    assert load.failures == []
    assert turn.observed is not None
    assert turn.observed.traffic == {CANDIDATE: 100}
    assert await asyncio.to_thread(ask_http, serving_stack.envoy.ingress_port) == (200, 3.0)


async def test_canary_is_rolled_back_and_fails_no_request(serving_stack: ServingStack) -> None:
    """From 50 % back to the stable version alone, under load; nothing of the canary is left in the object."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    with serving_stack.load() as load:
        await serving_stack.reach(StartCanary(BETTER, 50))
        await serving_stack.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        turn = await serving_stack.reach(RollBack(GOOD, BETTER))
        load.answers.clear()
        await serving_stack.until(lambda: load.answers["http 2"] > 50, "answers after the rollback")
        assert load.answers["http 3"] == 0
    assert load.failures == []
    assert turn.observed is not None
    assert turn.observed.traffic == {STABLE: 100}
    assert "canary" not in (serving_stack.hook.get() or {})["spec"]


async def test_promoted_version_is_rolled_back_and_fails_no_request(serving_stack: ServingStack) -> None:
    """The version before comes up beside the one to leave, takes everyone, and becomes the stable one."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    await serving_stack.reach(StartCanary(BETTER, 50))
    await serving_stack.reach(Promote(BETTER))
    with serving_stack.load() as load:
        turn = await serving_stack.reach(RollBack(GOOD, BETTER))
    assert load.failures == []
    assert turn.observed is not None
    assert turn.observed.traffic == {backend_name(NAME, predictor_name(GOOD)): 100}
    assert await asyncio.to_thread(ask_http, serving_stack.envoy.ingress_port) == (200, 2.0)


async def test_removing_a_canary_at_once_fails_requests(serving_stack: ServingStack) -> None:
    """The obvious rollback deletes the canary's Deployment before the route leads away from it."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    await serving_stack.reach(StartCanary(BETTER, 50))
    with serving_stack.load() as load:
        await serving_stack.until(lambda: load.answers["http 3"] > 20, "answers of the candidate")
        serving_stack.patch({"canary": None})
        await serving_stack.until(
            lambda: serving_stack.traffic() == {STABLE: 100}, "the stable version alone"
        )
    assert load.failures


async def test_percent_of_the_other_mode_sends_everyone_to_the_new_version(
    serving_stack: ServingStack,
) -> None:
    """`canaryTrafficPercent` is ignored: 10 % becomes everybody; our canary is refused while it stands there."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    serving_stack.patch({"predictor": {"canaryTrafficPercent": 10, "model": {"storageUri": BETTER}}})
    port = serving_stack.envoy.ingress_port
    await serving_stack.until(lambda: ask_http(port) == (200, 3.0), "the new version's answer")
    assert {ask_http(port) for _ in range(20)} == {(200, 3.0)}
    with pytest.raises(ForeignChangeError, match="silently ignored"):
        await serving_stack.reach(StartCanary(GOOD, 10))


async def test_candidate_that_does_not_load_gets_nobody(serving_stack: ServingStack) -> None:
    """The spec gives it 20 %, the status repeats that, and the routes lead everyone to the stable version."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    assert serving_stack.hook.patch(_start_patch(serving_stack, BROKEN))
    (entry,) = (serving_stack.hook.get() or {})["spec"]["canary"]
    serving_stack.patch({"canary": [{**entry, "trafficPercent": 20}]})
    noted = {"name": predictor_name(BROKEN), "ready": False, "trafficPercent": 20}
    await serving_stack.until(
        lambda: [one | noted for one in _echo(serving_stack)] == _echo(serving_stack) != [], "its note of it"
    )
    assert serving_stack.traffic() == {STABLE: 100}
    await serving_stack.reach(RollBack(GOOD, BROKEN))
    assert serving_stack.traffic() == {STABLE: 100}


def _start_patch(serving_stack: ServingStack, uri: str) -> dict[str, Any]:
    action = next_action(StartCanary(uri, 20), observe_service(serving_stack.hook))
    assert isinstance(action, Patch)
    return dict(action.body)


def _echo(serving_stack: ServingStack) -> list[dict[str, Any]]:
    service = serving_stack.hook.get()
    assert service is not None
    found: list[dict[str, Any]] = service["status"].get("canaryStatuses", [])
    return found


@pytest.mark.parametrize("serving_stack", [{"enable_gateway_api": False}], indirect=True)
async def test_no_canary_where_no_route_carries_weights(serving_stack: ServingStack) -> None:
    """Without Gateway API the version is served, but there is no HTTPRoute, and a canary is refused with the reason."""
    await asyncio.to_thread(serving_stack.hook.create, manifest(GOOD))
    port = serving_stack.envoy.ingress_port
    await serving_stack.until(lambda: ask_http(port) == (200, 2.0), "the version to be served")
    assert serving_stack.hook.read(routes_of(serving_stack.hook.name)) == []
    (problem,) = preflight(manifest(GOOD), config=serving_stack.hook.config_map(*CONFIG_MAP))
    assert "enableGatewayApi" in problem
    with pytest.raises(ForeignChangeError, match="enableGatewayApi"):
        await serving_stack.reach(StartCanary(BETTER, 20))


async def test_restarted_cluster_goes_on_with_the_canary(serving_stack: ServingStack) -> None:
    """After a crash of the whole cluster the weights are what they were as soon as the servers are back."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    await serving_stack.reach(StartCanary(BETTER, 20))
    serving_stack.emulator.kill()
    await asyncio.to_thread(serving_stack.emulator.start)
    await serving_stack.reach(ShiftWeight(20, BETTER))
    port = serving_stack.envoy.ingress_port
    await serving_stack.until(
        lambda: {ask_http(port) for _ in range(30)} == {(200, 2.0), (200, 3.0)}, "both versions"
    )


async def test_withdrawn_service_leaves_no_route(serving_stack: ServingStack) -> None:
    """Deleting the first version takes its HTTPRoutes and its answers away."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD)))
    assert len(serving_stack.hook.read(routes_of(serving_stack.hook.name))) == 2
    config = serving_stack.hook.config_map(*CONFIG_MAP)
    assert config is not None
    assert cluster_config(config) == ClusterConfig(gateway_api=True, creates_routes=True)
    await serving_stack.reach(Withdraw(GOOD))
    await serving_stack.until(
        lambda: serving_stack.hook.read(routes_of(serving_stack.hook.name)) == [], "the routes to be gone"
    )
    await serving_stack.until(
        lambda: ask_http(serving_stack.envoy.ingress_port)[0] == 404, "the host name to be unknown"
    )
