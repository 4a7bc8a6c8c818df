"""The end of a rollback in Standard mode: no HTTPRoute names the canary's backend, at weight 0 neither."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from slipway_core.rollout.actions import Done, PatchMade, RollBack, Wait
from slipway_core.rollout.next_action import next_action
from slipway_core.rollout.observation import Observed
from slipway_sandbox.kserve.standard import machine
from slipway_sandbox.lab.simulation.edits import V2, V3
from slipway_sandbox.lab.simulation.standard_model import StandardModel
from tests.support.rollout.reading import observe
from tests.support.rollout.standard_steps import CANDIDATE, STABLE, canary_at, drive

GOAL = RollBack(V2, V3)


def left_over() -> StandardModel:
    """A canary that was removed, while the routes still name its backend with weight 0: KServe does not write them."""
    model = canary_at(50)
    drive(model, GOAL)
    dead = (machine.Backend(STABLE, 100), machine.Backend(CANDIDATE, 0))
    model.state = replace(model.state, routed=dead)
    model.taken = dead
    return model


def edited(model: StandardModel, edit: Any) -> Observed:
    """What is observed when somebody has edited the routes."""
    routes = copy.deepcopy(model.routes())
    for route in routes:
        edit(route)
    return observe(model.as_object(), routes, model.deployments())


def test_a_backend_at_weight_0_is_not_the_end() -> None:
    """It says what it waits for, that users are safe, and takes the reference out where KServe does not."""
    model = left_over()
    action = next_action(GOAL, model.read())
    assert isinstance(action, Wait)
    assert (action.phase, action.users_safe) == ("release", True)
    assert CANDIDATE in action.reason
    assert isinstance(action.fallback, PatchMade)
    model.patch_made(action.fallback)
    model.step("gateway")
    for route in model.routes():
        (rule,) = route["spec"]["rules"]
        assert [one["name"] for one in rule["backendRefs"]] == [STABLE]
    assert isinstance(next_action(GOAL, model.read()), Done)


def test_kserve_takes_it_out_itself() -> None:
    """Where KServe writes the routes it names the stable predictor alone, and nothing is left to do."""
    model = left_over()
    model.settle()
    assert isinstance(next_action(GOAL, model.read()), Done)


def test_all_else_of_a_rule_is_given_back() -> None:
    """Filters, matches and time-outs stay, and no route of somebody else's is written."""
    model = left_over()

    def foreign(route: dict[str, Any]) -> None:
        if route["metadata"]["name"] == "digits":
            route["metadata"]["ownerReferences"] = []

    action = next_action(GOAL, edited(model, foreign))
    assert isinstance(action, Wait)
    assert isinstance(action.fallback, PatchMade)
    (patch,) = action.fallback.patches
    before = next(one for one in model.routes() if one["metadata"]["name"] == patch.name)["spec"]["rules"][0]
    (after,) = patch.body["spec"]["rules"]
    assert {key: value for key, value in after.items() if key != "backendRefs"} == {
        key: value for key, value in before.items() if key != "backendRefs"
    }


def test_a_rule_is_never_left_without_a_backend() -> None:
    """A rule in which nothing has a share stays as it is: nobody knows what it is for."""
    model = left_over()

    def nobody(route: dict[str, Any]) -> None:
        rule = route["spec"]["rules"][0]
        alone = copy.deepcopy(rule)
        alone["backendRefs"] = [one for one in alone["backendRefs"] if one["name"] == CANDIDATE]
        route["spec"]["rules"].append(alone)

    action = next_action(GOAL, edited(model, nobody))
    assert isinstance(action, Wait)
    assert isinstance(action.fallback, PatchMade)
    for patch in action.fallback.patches:
        assert all(rule["backendRefs"] for rule in patch.body["spec"]["rules"])
