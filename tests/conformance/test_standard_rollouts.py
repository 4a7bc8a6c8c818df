"""Standard mode with KServe 0.20, which takes a canary and brings its pods up, but never leads users to it.

The weights of HTTPRoutes need KServe 0.21. They are held by the emulator and by recordings of a later KServe, not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest

from slipway_core.errors import PodStartError, SpecError, TimedOutError, TransientError, UserError
from slipway_core.rollout.fields import FIELD_MANAGER
from slipway_core.rollout.next_action import Done, FirstDeploy, RollBack, StartCanary
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.rollouts import Rollouts, uri
from tests.support.conformance.standard_mode import (
    NO_WEIGHTS_LIMIT_S,
    REPLICAS,
    ROUTES,
    STABLE,
    available,
    backends,
    bring_in_vain,
    canary_on_frozen_routes,
    deployments,
    own_version,
    predictor_is_ready,
    weight_asked_for,
    writers_of,
)
from tests.support.waiting import wait_until

AUTOSCALERS = "/apis/autoscaling/v2/horizontalpodautoscalers"
CONFIG = "/api/v1/namespaces/kserve/configmaps/inferenceservice-config"
ROUTES_LIMIT_S = 30.0


def least_replicas(rollouts: Rollouts) -> dict[str, int]:
    """Return the least number of pods of each Deployment that an autoscaler keeps up."""
    return {one["metadata"]["name"]: one["spec"]["minReplicas"] for one in rollouts.objects(AUTOSCALERS)}


def test_a_canary_whose_weight_never_comes_times_out_and_is_taken_back(standard: Rollouts) -> None:
    """KServe brings the candidate's pod up; no user is led to it; the rollback leaves nothing of it."""
    standard.first(1)

    def told() -> list[tuple[int, bool]]:
        statuses = standard.service()["status"].get("canaryStatuses") or []
        return [(one["trafficPercent"], one["ready"]) for one in statuses]

    goal = StartCanary(uri(2), 20, version=2)
    bring_in_vain(standard, goal, lambda: told() == [(20, True)], "KServe says that the candidate is ready")
    assert backends(standard) == {STABLE}
    assert len(deployments(standard)) == 2
    assert isinstance(standard.bring(RollBack(uri(1), uri(2))).action, Done)
    assert not standard.service()["spec"].get("canary")
    assert backends(standard) == {STABLE}
    wait_until(lambda: set(deployments(standard)) == {STABLE}, "the candidate's pods are gone")


def test_a_candidate_that_crashes_is_taken_back(standard: Rollouts) -> None:
    """KServe is silent about a canary that does not come up, its pods are not; the rollback leaves nothing of it."""
    standard.first(1)
    crashing = own_version(standard, 2)
    standard.cluster.fates.of_version(crashing, Fate.CRASHES)
    with pytest.raises(UserError, match="does not come up: the init container storage-initializer"):
        standard.bring(StartCanary(crashing, 20, version=2))
    assert isinstance(standard.bring(RollBack(uri(1), crashing)).action, Done)
    assert backends(standard) == {STABLE}
    assert available(standard, STABLE) == 1


@pytest.fixture
def no_gateway_api(standard: Rollouts) -> Iterator[None]:
    """KServe is told to use no Gateway API."""
    api = standard.cluster.api
    before = api.must("GET", CONFIG)["data"]["ingress"]
    changed = json.dumps({**json.loads(before), "enableGatewayApi": False})
    api.merge(CONFIG, {"data": {"ingress": changed}})
    yield
    api.merge(CONFIG, {"data": {"ingress": before}})


def test_a_service_without_gateway_api_is_not_created(standard: Rollouts, no_gateway_api: None) -> None:
    """The preflight reads KServe's own ConfigMap, with Airflow's rights, and refuses before anything is made."""
    with pytest.raises(SpecError, match="could not have canaries"):
        standard.first(1)
    assert standard.hook.get() is None


def test_the_replicas_are_an_autoscalers(standard: Rollouts) -> None:
    """minReplicas becomes an HPA's, and the Deployment, which starts with one pod, follows it."""
    standard.first(1, minReplicas=REPLICAS)
    wait_until(lambda: available(standard, STABLE) == REPLICAS, f"{REPLICAS} pods")
    assert least_replicas(standard) == {STABLE: REPLICAS}


def test_a_first_deployment_is_not_done_with_one_pod_of_three(standard: Rollouts) -> None:
    """Where the other pods do not come up, users must not be told that the version carries them."""
    version = own_version(standard, 1)
    standard.cluster.fates.at_most_ready(version, 1)
    manifest = standard.manifest(1, minReplicas=REPLICAS)
    manifest["spec"]["predictor"]["model"]["storageUri"] = version
    # Where the real scheduler has had a word, it says why the other pods wait.
    with pytest.raises((TimedOutError, PodStartError)):
        standard.bring(FirstDeploy(manifest), limit_s=NO_WEIGHTS_LIMIT_S)


def test_one_pod_of_three_may_be_away(standard: Rollouts) -> None:
    """KServe writes no route while the predictor is not ready, so one broken pod must not make it so."""
    standard.first(1, minReplicas=REPLICAS)
    wait_until(lambda: available(standard, STABLE) == REPLICAS, f"{REPLICAS} pods")
    pod, *_ = standard.objects("/api/v1/pods")
    standard.cluster.fates.of_pod(pod["metadata"]["name"], Fate.CRASHES)
    wait_until(lambda: available(standard, STABLE) == REPLICAS - 1, "one pod is away")
    conditions = deployments(standard)[STABLE]["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions}["Available"] == "True"


def test_users_are_taken_off_a_candidate_though_kserve_leaves_the_routes(standard: Rollouts) -> None:
    """KServe touches no route while the stable version's pods are missing: the rollback writes the weights itself."""
    stable = canary_on_frozen_routes(standard)
    with suppress(TimedOutError):
        standard.bring(RollBack(stable, uri(2)), limit_s=ROUTES_LIMIT_S)
    assert backends(standard) == {STABLE}
    assert all(FIELD_MANAGER in writers_of(route) for route in standard.objects(ROUTES))


def test_users_are_taken_off_a_candidate_though_kserve_hangs(standard: Rollouts) -> None:
    """The API asks KServe's webhooks before it changes the service, not before it changes the routes."""
    stable = canary_on_frozen_routes(standard)
    asked_for = weight_asked_for(standard)
    standard.cluster.processes.pause("kserve-manager")
    try:
        with pytest.raises(TransientError):
            standard.bring(RollBack(stable, uri(2)), limit_s=ROUTES_LIMIT_S)
        assert backends(standard) == {STABLE}
        assert weight_asked_for(standard) == asked_for == 50
    finally:
        standard.cluster.processes.resume("kserve-manager")


def test_a_candidate_gets_no_weight_before_its_pods_carry_it(standard: Rollouts) -> None:
    """With one pod of three the spec keeps 50 % back; with all of them it asks for it."""
    standard.first(1, minReplicas=REPLICAS)
    candidate = own_version(standard, 2)
    standard.cluster.fates.at_most_ready(candidate, 1)
    goal = StartCanary(candidate, 50, version=2)
    bring_in_vain(standard, goal, lambda: weight_asked_for(standard) == 0, "a candidate without users")
    # The stable version's pods are not doubled meanwhile: it would be unavailable until they all are up.
    assert least_replicas(standard)[STABLE] == REPLICAS
    assert predictor_is_ready(standard)
    standard.cluster.fates.at_most_ready(candidate, REPLICAS)
    bring_in_vain(standard, goal, lambda: weight_asked_for(standard) == 50, "50 % is asked for")
    assert backends(standard) == {STABLE}
