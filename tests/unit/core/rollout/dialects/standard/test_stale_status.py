"""A spec may be newer than the pods: nothing is called done before a Deployment serves it (Standard mode)."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.rollout.next_action import (
    Done,
    FirstDeploy,
    Goal,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    next_action,
    serving_doubt,
)
from slipway_sandbox.lab.simulation.edits import V2, V3, V4, naming
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live
from tests.support.rollout.standard_steps import canary_at, drive

BACK = RollBack(V2, V3)


def name(model: StandardModel, uri: str) -> None:
    """Have a person name another version in the stable predictor, under the name that it has."""
    model.patch(naming(uri))


def promoted() -> StandardModel:
    """Everybody is on the bad version."""
    model = canary_at(20)
    assert isinstance(drive(model, Promote(V3)), Done)
    return model


def test_a_rollback_is_not_done_while_the_pods_serve_the_bad_version() -> None:
    """A person names the good version in its place: route, name and status stay as they are, the pods too."""
    model = promoted()
    name(model, V2)
    observed = model.read()
    action = next_action(BACK, observed)
    assert isinstance(action, Wait)
    assert not action.users_safe
    assert V3 in action.reason
    assert not observed.is_shielded_from(V3)
    assert serving_doubt(observed)
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}
    assert not serving_doubt(model.read())


def test_pods_that_are_replaced_one_by_one_serve_both() -> None:
    """The Deployment's template names the good version, and pods of the bad one answer still."""
    model = promoted()
    name(model, V2)
    for step in ("sync", "reconcile", "route", "status", "gateway"):
        model.step(step)
    assert model.users() == {V3: 100}
    assert isinstance(next_action(BACK, model.read()), Wait)
    assert not model.read().is_shielded_from(V3)


def test_where_nobody_may_see_the_pods_a_rollback_ends_when_it_has_waited() -> None:
    """Without the right to list Deployments time must do, as for a controller that notes nothing."""
    model = standard_live()
    model.deployments_are_seen = False
    action = next_action(BACK, model.read())
    assert isinstance(action, Wait)
    assert "deployments.apps" in action.reason
    assert isinstance(next_action(RollBack(V2, V3, unseen_may_serve=True), model.read()), Done)


@pytest.mark.parametrize("goal", [Promote(V3), StartCanary(V4, 5), FirstDeploy({})])
def test_a_version_that_is_only_named_is_not_live(goal: Goal) -> None:
    """Neither promoted, nor stable for a canary, nor deployed."""
    model = standard_live()
    name(model, V3)
    if isinstance(goal, FirstDeploy):
        goal = FirstDeploy({"spec": {"predictor": {"model": {"storageUri": V3}}}})
    assert isinstance(next_action(goal, model.read()), Wait)
    model.settle()
    assert not isinstance(next_action(goal, model.read()), Wait)


@pytest.mark.parametrize("goal", [ShiftWeight(50, V3), ShiftWeight(20, V3), Promote(V3)])
def test_no_weight_is_raised_while_the_candidates_pods_serve_something_else(goal: Goal) -> None:
    """Somebody has named another version in the candidate's place, whose pods are up, and the candidate again."""
    model = canary_at(20)

    def named(uri: str) -> None:
        entry: dict[str, Any] = dict(model.spec["canary"][0])
        predictor = entry["predictor"]
        entry["predictor"] = {**predictor, "model": {**predictor["model"], "storageUri": uri}}
        model.patch({"metadata": {}, "spec": {"canary": [entry]}})

    named(V4)
    model.settle()
    named(V3)
    for _ in range(3):
        action = next_action(goal, model.read())
        if not isinstance(action, Patch):
            break
        # More replicas lead nobody anywhere.
        assert action.body["spec"]["canary"][0]["trafficPercent"] == 20
        model.patch(dict(action.body))
    assert isinstance(action, Wait)
