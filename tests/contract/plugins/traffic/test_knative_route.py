"""What our own hook calls done in Knative mode is what Envoy does, with an ingress that is slow, or dead (emulated)."""

from __future__ import annotations

import asyncio

import pytest

from slipway.traffic.reconciler import observe_service, reconcile
from slipway_core.errors import TimedOutError
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES
from slipway_core.rollout.dialects.knative.view import knative_service_name
from slipway_core.rollout.next_action import (
    FirstDeploy,
    Goal,
    Patch,
    Promote,
    RollBack,
    StartCanary,
    next_action,
)
from slipway_core.rollout.reading import Reading
from tests.support.serving.clients import ask_http
from tests.support.serving.published import BETTER, GOOD
from tests.support.serving.serving_stack import ServingStack, manifest

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

REQUESTS = 60
ALIVE, DEAD = {"ingress_lag_s": 1.5, "scale_down_grace_s": 60.0}, {"ingress_lag_s": None}


def first() -> FirstDeploy:
    """The first version, in Knative mode."""
    service = manifest(GOOD)
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "Knative"}
    return FirstDeploy(service)


async def answers(serving_stack: ServingStack) -> set[tuple[int, float]]:
    """What users are answered now: the status and the factor, over some requests."""
    port = serving_stack.envoy.ingress_port
    return {await asyncio.to_thread(ask_http, port) for _ in range(REQUESTS)}


@pytest.mark.parametrize("serving_stack", [ALIVE], indirect=True)
async def test_what_is_done_is_what_users_get(serving_stack: ServingStack) -> None:
    """First version, canary, promotion and return: the requests right after each show it, and nothing else."""
    good, better = (200, 2.0), (200, 3.0)
    await serving_stack.reach(first())
    assert await answers(serving_stack) == {good}
    await serving_stack.reach(StartCanary(BETTER, 50))
    assert await answers(serving_stack) == {good, better}
    await serving_stack.reach(Promote(BETTER))
    assert await answers(serving_stack) == {better}
    turn = await asyncio.to_thread(
        reconcile,
        serving_stack.hook,
        RollBack(GOOD, BETTER),
        timeout_s=60,
        suffices=lambda now: now.observed is not None and now.observed.is_shielded_from(BETTER),
    )
    assert turn.observed is not None
    assert turn.observed.canary_percent == 0
    assert await answers(serving_stack) == {good}
    await serving_stack.reach(RollBack(GOOD, BETTER))
    assert await answers(serving_stack) == {good}


@pytest.mark.parametrize("serving_stack", [DEAD], indirect=True)
async def test_a_dead_ingress_is_named_when_the_time_is_up(serving_stack: ServingStack) -> None:
    """The traffic is intended, nobody is led anywhere, and the error says what the route waits for."""

    def reach(goal: Goal) -> None:
        reconcile(serving_stack.hook, goal, timeout_s=15)

    with pytest.raises(TimedOutError, match="PredictorRouteReady is Unknown: IngressNotConfigured"):
        await asyncio.to_thread(reach, first())
    observed = await asyncio.to_thread(observe_service, serving_stack.hook)
    assert observed is not None
    assert observed.is_intended_alone(observed.latest_created)
    assert {status for status, _ in await answers(serving_stack)} == {404}


async def test_the_knative_service_behind_is_read_and_written_on_the_way_back(
    serving_stack: ServingStack,
) -> None:
    """The emulated KServe lives, so it writes it over; who patches by what is old is told to look again."""
    hook = serving_stack.hook
    await serving_stack.reach(first())
    await serving_stack.reach(StartCanary(BETTER, 50))
    observed = await asyncio.to_thread(lambda: observe_service(hook, behind=True))
    assert observed is not None
    action = next_action(RollBack(GOOD, BETTER), observed)
    assert isinstance(action, Patch)
    assert isinstance(action.fallback, PatchMade)
    assert await asyncio.to_thread(hook.patch_made, action.fallback)
    assert not await asyncio.to_thread(hook.patch_made, action.fallback)
    percents = [one["percent"] for one in action.fallback.patches[0].body["spec"]["traffic"]]
    assert percents == [0, 100]

    def written_over() -> bool:
        found = hook.read(Reading(KNATIVE_SERVICES, (knative_service_name(hook.name),)))
        return [[one["percent"] for one in made["spec"]["traffic"]] for made in found] == [[50, 50]]

    await serving_stack.until(written_over, "KServe has written it over")
    await serving_stack.reach(RollBack(GOOD, BETTER))
    assert await answers(serving_stack) == {(200, 2.0)}
