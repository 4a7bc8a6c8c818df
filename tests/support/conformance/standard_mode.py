"""Standard mode as tests look at it: Deployments, HTTPRoutes, and routes that KServe leaves as they are."""

from __future__ import annotations

from collections.abc import Callable

from slipway_core.errors import TimedOutError
from slipway_core.rollout.next_action import FirstDeploy, Goal, StartCanary
from tests.support.conformance.api import Object
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.rollouts import NAME, Rollouts, uri
from tests.support.waiting import wait_until

DEPLOYMENTS = "/apis/apps/v1/deployments"
ROUTES = "/apis/gateway.networking.k8s.io/v1/httproutes"
STABLE = f"{NAME}-predictor"
REPLICAS = 3
# Weights never come with KServe 0.20: how long one try waits for them.
NO_WEIGHTS_LIMIT_S = 8.0


def own_version(rollouts: Rollouts, version: int) -> str:
    """Return a storageUri whose pods' fate is this test's alone."""
    return f"s3://{rollouts.namespace}/models/{NAME}/{version}/repository"


def backends(rollouts: Rollouts) -> set[str]:
    """Return every Service to which the HTTPRoutes lead a user."""
    return {
        backend["name"]
        for route in rollouts.objects(ROUTES)
        for rule in route["spec"]["rules"]
        for backend in rule.get("backendRefs", [])
        if backend.get("weight") != 0
    }


def deployments(rollouts: Rollouts) -> dict[str, Object]:
    """Return the Deployments by name."""
    return {one["metadata"]["name"]: one for one in rollouts.objects(DEPLOYMENTS)}


def available(rollouts: Rollouts, name: str) -> int:
    """Return how many pods of a Deployment are available."""
    found = deployments(rollouts).get(name, {})
    return int(found.get("status", {}).get("availableReplicas", 0))


def bring_in_vain(rollouts: Rollouts, goal: Goal, until: Callable[[], bool], what: str) -> None:
    """Try for a goal that KServe never lets come true, again and again until `until` holds; each try must time out.

    One try is enough on an idle machine; on a busy one the pods of the candidate may not be there before it ends.
    """

    def is_brought() -> bool:
        try:
            reached = rollouts.bring(goal, limit_s=NO_WEIGHTS_LIMIT_S)
        except TimedOutError:
            return until()
        raise AssertionError(f"reached without weights: {reached.action}")

    wait_until(is_brought, what)


def weight_asked_for(rollouts: Rollouts) -> int | None:
    """Return the candidate's percent in the spec; None without a candidate."""
    canaries = rollouts.service()["spec"].get("canary") or []
    return int(canaries[0]["trafficPercent"]) if canaries else None


def predictor_is_ready(rollouts: Rollouts) -> bool:
    """Return whether KServe says so of the stable version."""
    conditions = rollouts.service()["status"]["conditions"]
    return bool({one["type"]: one["status"] for one in conditions}["PredictorReady"] == "True")


def writers_of(route: Object) -> set[str]:
    """Return the names of the clients that wrote a route, as the API notes them."""
    return {one["manager"] for one in route["metadata"]["managedFields"]}


def split_by_hand(rollouts: Rollouts, candidate: str) -> None:
    """Lead half of the users to the candidate, as KServe's HTTPRoutes do from 0.21 on."""
    for route in rollouts.objects(ROUTES):
        rules = route["spec"]["rules"]
        for rule in rules:
            (stable,) = rule["backendRefs"]
            rule["backendRefs"] = [{**stable, "weight": 50}, {**stable, "name": candidate, "weight": 50}]
        metadata = route["metadata"]
        rollouts.cluster.api.merge(
            f"/apis/gateway.networking.k8s.io/v1/namespaces/{metadata['namespace']}/httproutes/{metadata['name']}",
            {"spec": {"rules": rules}},
        )


def canary_on_frozen_routes(rollouts: Rollouts) -> str:
    """Have a canary of version 2 at 50 % while all pods of the stable version crash, so that KServe touches no route.

    KServe 0.20 writes no weights, so here somebody else does, as a later KServe would have before.

    :returns: the stable version's storageUri.
    """
    stable = own_version(rollouts, 1)
    manifest = rollouts.manifest(1, minReplicas=REPLICAS)
    manifest["spec"]["predictor"]["model"]["storageUri"] = stable
    rollouts.bring(FirstDeploy(manifest))
    goal = StartCanary(uri(2), 50, version=2)
    bring_in_vain(rollouts, goal, lambda: weight_asked_for(rollouts) == 50, "50 % is asked for")
    (candidate,) = set(deployments(rollouts)) - {STABLE}
    rollouts.cluster.fates.of_version(stable, Fate.CRASHES)
    wait_until(lambda: not predictor_is_ready(rollouts), "KServe sees that the pods are gone")
    split_by_hand(rollouts, candidate)
    assert backends(rollouts) == {STABLE, candidate}
    return stable
