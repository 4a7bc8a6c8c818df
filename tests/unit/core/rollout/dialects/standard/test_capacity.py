"""KServe's Standard mode: nobody is given users before enough pods are there to carry them."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.rollout.dialects.standard.replicas import Replicas, needed, read_deployments
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.next_action import (
    Done,
    Expose,
    FirstDeploy,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    next_action,
)
from slipway_core.rollout.reconciler import Limits, Reached, Reconciler, Saw, Waited
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.lab.simulation.edits import V1, V2, V3
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live
from tests.support.rollout.standard_steps import CANDIDATE, STABLE, Carried, canary_at, drive, patched

BACK = RollBack(V2, V3)
GOOD_AGAIN = backend_name("digits", predictor_name(V2))


@pytest.mark.parametrize(
    ("replicas", "weight", "pods"),
    [(3, 1, 1), (3, 33, 1), (3, 34, 2), (3, 100, 3), (10, 20, 2), (1, 99, 1), (1, 0, 1)],
)
def test_a_share_needs_so_many_pods(replicas: int, weight: int, pods: int) -> None:
    """The share of what stable had, rounded up, and one at least."""
    assert needed(replicas, weight) == pods


def deployment(generation: int = 1, observed: int = 1, **status: int) -> dict[str, Any]:
    """A Deployment that wants three pods."""
    return {
        "metadata": {"name": "d", "generation": generation},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": observed, **status},
    }


@pytest.mark.parametrize(
    ("found", "available"),
    [
        (deployment(replicas=3, updatedReplicas=3, availableReplicas=2), 2),
        (deployment(replicas=3, updatedReplicas=3), 0),
        (deployment(replicas=4, updatedReplicas=1, availableReplicas=3), 0),
        (deployment(replicas=4, updatedReplicas=3, availableReplicas=4), 3),
        (deployment(generation=2, replicas=3, updatedReplicas=3, availableReplicas=3), 0),
        ({"metadata": {"name": "d"}, "spec": {"replicas": 3}, "status": "?"}, 0),
    ],
    ids=["two of three", "none", "old pods", "an update nearly done", "status of before", "unreadable"],
)
def test_only_pods_of_the_present_template_count(found: dict[str, Any], available: int) -> None:
    """And none where the status is about another generation."""
    assert read_deployments([found]) == {"d": Replicas(3, available)}


def standard_manifest(replicas: int) -> dict[str, Any]:
    """The manifest of a first version with so many replicas."""
    text = "model: digits\nsource: {format: onnx}\nrollout: {deployment_mode: Standard}\n"
    manifest = inference_service_manifest(parse_release_spec(text, "digits.yaml"), V1)
    manifest["spec"]["predictor"]["minReplicas"] = replicas
    return manifest


def test_a_first_version_is_done_when_all_its_pods_are_there() -> None:
    """KServe is ready, and leads all users, with one of three."""
    model, goal = StandardModel(), FirstDeploy(standard_manifest(3))
    model.create(dict(goal.manifest))
    for name in ("sync", "reconcile", "ready", "sync", "reconcile", "route", "status", "gateway"):
        model.step(name)
    assert model.users() == {V1: 100}
    waiting = next_action(goal, model.read())
    assert isinstance(waiting, Wait)
    assert "1 of the 3 pods" in waiting.reason
    model.settle(rounds=6)
    assert isinstance(next_action(goal, model.read()), Done)


def test_the_manifest_allows_for_missing_pods() -> None:
    """From the first deployment on half of the pods may be missing before KServe leaves the routes as they are."""
    strategy = standard_manifest(1)["spec"]["predictor"]["deploymentStrategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": "50%"}


def test_no_weight_before_its_pods_are_there() -> None:
    """At 99 % of three all three pods are needed; with one that does not come up the candidate keeps its users."""
    model = canary_at(20, replicas=3)
    model.lose(CANDIDATE, 1)
    for goal in (ShiftWeight(99, V3), Promote(V3)):
        waiting = drive(model, goal)
        assert isinstance(waiting, Wait)
        assert f"2 of the 3 pods of {CANDIDATE}" in waiting.reason
        assert model.users() == {V2: 80, V3: 20}
    model.lose(CANDIDATE, 0)
    assert isinstance(drive(model, Promote(V3)), Done)


def test_a_canary_begins_without_users() -> None:
    """KServe leads its first weight to the first pod that answers; so it has no weight until enough of them do."""
    model = standard_live(replicas=10)
    goal = StartCanary(V3, 20)
    assert patched(model, goal).body["spec"]["canary"][0]["trafficPercent"] == 0
    model.lose(CANDIDATE, 1)
    assert isinstance(drive(model, goal), Wait)
    assert model.users() == {V2: 100}
    model.lose(CANDIDATE, 0)
    assert isinstance(drive(model, goal), Done)
    assert model.users() == {V2: 80, V3: 20}


def test_a_preview_grows_to_its_first_weight() -> None:
    """It has one pod; the decision to raise it still holds when it was given the others."""
    model = standard_live(replicas=10)
    goal = ShowCandidate(V3)
    for _ in range(20):
        action = next_action(goal, model.read())
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        if isinstance(action, Expose):
            model.expose(dict(action.body))
        model.settle()
    assert isinstance(action, Done)
    assert model.available(CANDIDATE) == 1
    assert isinstance(drive(model, StartCanary(V3, 20, generation=model.generation)), Done)
    assert model.available(CANDIDATE) == 2
    assert model.users() == {V2: 80, V3: 20}


def test_a_smaller_weight_waits_for_nothing() -> None:
    """A step that is taken back goes on though no pod of the candidate answers, and nobody sees any."""
    model = canary_at(50, replicas=3)
    model.lose(CANDIDATE, 3)
    model.deployments_are_seen = False
    model.settle()
    assert patched(model, ShiftWeight(20, V3)).body["spec"]["canary"][0]["trafficPercent"] == 20


def test_the_way_to_0_waits_for_nothing() -> None:
    """Pods of stable are missing, and nobody sees any: percent 0 is patched at once."""
    model = canary_at(50, replicas=3)
    model.lose(STABLE, 2)
    model.deployments_are_seen = False
    assert patched(model, BACK).phase == "shield"


@pytest.mark.parametrize("goal", [StartCanary(V3, 5), ShiftWeight(50, V3), Promote(V3)])
def test_without_the_right_to_see_pods_no_step_forward_is_taken(goal: Any) -> None:
    """It waits and says what is missing."""
    model = standard_live(replicas=3) if isinstance(goal, StartCanary) else canary_at(20, replicas=3)
    before = model.users()
    model.deployments_are_seen = False
    action = drive(model, goal)
    assert isinstance(action, Wait)
    assert "list deployments.apps" in action.reason
    assert model.users() == before


def test_a_version_that_comes_back_gets_users_when_all_its_pods_are_there() -> None:
    """It is cold: KServe would lead everyone to the first of three. The bad version keeps its pods meanwhile."""
    model = canary_at(20, replicas=3)
    drive(model, Promote(V3))
    while model.replicas(GOOD_AGAIN) < 3:
        drive(model, BACK, rounds=1)
    model.lose(GOOD_AGAIN, 1)
    waiting = drive(model, BACK)
    assert isinstance(waiting, Wait)
    assert "2 of the 3 pods" in waiting.reason
    assert model.users() == {V3: 100}
    assert model.available(CANDIDATE) == 3
    model.lose(GOOD_AGAIN, 0)
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}
    assert model.available(GOOD_AGAIN) == 3


def test_where_nobody_may_see_pods_a_version_comes_back_after_a_while() -> None:
    """Users do not stay with the bad version for the sake of a right: it was waited for, and the version answers."""
    model = canary_at(20, replicas=3)
    drive(model, Promote(V3))
    model.deployments_are_seen = False
    assert isinstance(drive(model, BACK), Wait)
    assert model.users() == {V3: 100}
    limits = Limits(poll_s=1.0, unnoted_after_s=60.0)
    one = Reconciler(BACK, limits, name="models/digits", began_s=0.0)
    one.next(Waited(), 0.0)
    assert not isinstance(one.next(Saw(model.read()), 61.0), Reached)
    assert isinstance(drive(model, one.goal), Done)
    assert model.users() == {V2: 100}


def test_a_returning_version_starts_with_one_pod() -> None:
    """So the bad version, which still serves, is asked for one pod more and not for twice as many."""
    model = canary_at(99, replicas=3)
    drive(model, Promote(V3))
    back = Carried(model, BACK)
    back.run()
    replicas = [
        one.body["spec"]["canary"][0]["predictor"]["minReplicas"]
        for one in back.acts
        if isinstance(one, Patch) and one.body["spec"].get("canary")
    ]
    assert replicas == [1, 3, 3]
