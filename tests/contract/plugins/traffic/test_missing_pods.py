"""Pods that do not answer, in KServe's Standard mode: our hook on the emulated cluster, which only counts pods."""

from __future__ import annotations

import asyncio

import pytest
from kubernetes.client import CoreV1Api

from slipway.hooks.inference_service import KServeHook
from slipway_core.errors import ClusterUnavailableError, TimedOutError
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.standard.replicas import read_deployments
from slipway_core.rollout.dialects.standard.resources import deployments_of, routes_of
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name
from slipway_core.rollout.next_action import FirstDeploy, Promote, RollBack, StartCanary
from slipway_core.rollout.reconciler import Reconciliation
from slipway_sandbox.kserve.standard.pods import MISSING_PODS
from tests.support.serving.clients import ask_http
from tests.support.serving.published import BETTER, GOOD
from tests.support.serving.serving_stack import NAME, NAMESPACE, ServingStack, manifest, reconcile

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

STABLE = backend_name(NAME, "")
CANDIDATE = backend_name(NAME, predictor_name(BETTER))
ROLLING = {"rollingUpdate": {"maxUnavailable": "50%"}}


def lose(serving_stack: ServingStack, **pods: int) -> None:
    """Have so many pods of each Deployment (STABLE, CANDIDATE) not answer."""
    names = {"stable": STABLE, "candidate": CANDIDATE}
    body = {
        "metadata": {"name": MISSING_PODS, "namespace": NAMESPACE},
        "data": {names[one]: str(number) for one, number in pods.items()},
    }
    api = CoreV1Api(serving_stack.emulator.api_client())
    known = [one.metadata.name for one in api.list_namespaced_config_map(NAMESPACE).items]
    if MISSING_PODS in known:
        api.patch_namespaced_config_map(MISSING_PODS, NAMESPACE, body)
    else:
        api.create_namespaced_config_map(NAMESPACE, body)


def available(serving_stack: ServingStack) -> dict[str, int]:
    """The available pods by Deployment, as the product reads them."""
    found = serving_stack.hook.read(deployments_of(serving_stack.hook.name))
    assert found is not None
    return {name: replicas.available for name, replicas in read_deployments(found).items()}


async def test_weight_follows_the_pods_that_answer(serving_stack: ServingStack) -> None:
    """First version, canary and promotion are done when 3, 2 and 3 pods are available; a cold one comes back with 3."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD, minReplicas=3)))
    assert available(serving_stack) == {STABLE: 3}
    await serving_stack.reach(StartCanary(BETTER, 50))
    assert available(serving_stack) == {STABLE: 3, CANDIDATE: 2}
    lose(serving_stack, candidate=1)
    with pytest.raises(TimedOutError, match="pods of"):
        await asyncio.to_thread(reconcile, serving_stack.hook, Promote(BETTER), timeout_s=6)
    assert serving_stack.traffic() == {STABLE: 50, CANDIDATE: 50}
    lose(serving_stack, candidate=0)
    await serving_stack.reach(Promote(BETTER))
    assert available(serving_stack) == {CANDIDATE: 3}
    with serving_stack.load() as load:
        await serving_stack.reach(RollBack(GOOD, BETTER))
    assert load.failures == []
    assert available(serving_stack) == {backend_name(NAME, predictor_name(GOOD)): 3}


async def test_a_rollback_reaches_users_though_the_routes_are_left_as_they_are(
    serving_stack: ServingStack,
) -> None:
    """Two of three stable pods crash: we write the weights, users are led back, and KServe takes over again."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD, minReplicas=3, deploymentStrategy=ROLLING)))
    await serving_stack.reach(StartCanary(BETTER, 50))
    lose(serving_stack, stable=2)
    await serving_stack.until(lambda: available(serving_stack)[STABLE] == 1, "one pod of stable")
    with serving_stack.load() as load:
        await serving_stack.reach(RollBack(GOOD, BETTER))
        assert serving_stack.traffic() == {STABLE: 100}
        load.answers.clear()
        await serving_stack.until(lambda: load.answers["http 2"] > 50, "answers after the rollback")
        assert load.answers["http 3"] == 0
        lose(serving_stack, stable=0)
        await serving_stack.until(lambda: _backends(serving_stack) == {STABLE}, "KServe's own route")
    assert load.failures == []
    assert await asyncio.to_thread(ask_http, serving_stack.envoy.ingress_port) == (200, 2.0)


async def test_without_the_right_to_write_routes_a_rollback_says_so_and_goes_on_waiting(
    serving_stack: ServingStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once, by whoever follows the rollback; the object says percent 0 all the same."""
    await serving_stack.reach(FirstDeploy(manifest(GOOD, minReplicas=3, deploymentStrategy=ROLLING)))
    await serving_stack.reach(StartCanary(BETTER, 50))
    lose(serving_stack, stable=2)
    await serving_stack.until(lambda: available(serving_stack)[STABLE] == 1, "one pod of stable")

    def denied(hook: KServeHook, action: PatchMade) -> bool:
        raise ClusterUnavailableError("patching the HTTPRoute failed", found="HTTP 403 Forbidden")

    monkeypatch.setattr(KServeHook, "patch_made", denied)
    told: list[Reconciliation] = []
    with pytest.raises(TimedOutError, match="403"):
        await asyncio.to_thread(
            reconcile, serving_stack.hook, RollBack(GOOD, BETTER), timeout_s=12, on_progress=told.append
        )
    assert len([one for one in told if "403" in one.action.reason]) == 1
    (entry,) = (serving_stack.hook.get() or {})["spec"]["canary"]
    assert entry["trafficPercent"] == 0
    monkeypatch.undo()
    await serving_stack.reach(RollBack(GOOD, BETTER))
    assert serving_stack.traffic() == {STABLE: 100}


def _backends(serving_stack: ServingStack) -> set[str]:
    return {
        reference["name"]
        for route in serving_stack.hook.read(routes_of(serving_stack.hook.name))
        for rule in route["spec"]["rules"]
        for reference in rule["backendRefs"]
    }
