"""KServe's Standard mode: how many pods each version has during a canary and after it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_core.rollout.next_action import (
    Impossible,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    next_action,
)
from slipway_sandbox.lab.simulation.cluster_model import futures
from slipway_sandbox.lab.simulation.edits import V2, V3
from slipway_sandbox.lab.simulation.standard_model import standard_live
from tests.support.rollout.standard_steps import (
    CANDIDATE,
    STABLE,
    START,
    canary_at,
    drive,
    failing,
    naive,
    patched,
)

# --- replicas ---


def test_a_ready_canary_shrinks_stable_unless_it_is_raised() -> None:
    """KServe takes a canary's replicas from stable's minReplicas: at 50 % half of them are gone, with ours none."""
    model = standard_live(replicas=4)
    entry = {
        "trafficPercent": 50,
        "predictor": {"name": "c", "model": {"modelFormat": {"name": "triton"}, "storageUri": V3}},
    }
    theirs = naive(model, {"canary": [entry]})
    theirs.settle()
    assert theirs.replicas(STABLE) == 2
    least = []
    drive(model, START)
    for weight in (50, 99):
        patched(model, ShiftWeight(weight))
        least += [one.available(STABLE) for one in futures(model)]
        drive(model, ShiftWeight(weight))
    patched(model, RollBack(V2, V3))
    least += [one.available(STABLE) for one in futures(model)]
    assert min(least) == 4
    drive(model, RollBack(V2, V3))
    assert model.replicas(STABLE) == 4
    assert model.spec["predictor"]["minReplicas"] == 4


@pytest.mark.parametrize(("replicas", "extra"), [(1, 0), (3, 1), (10, 2)])
def test_a_booting_canary_starts_only_as_many_pods_of_stable_as_its_weight_needs(
    replicas: int, extra: int
) -> None:
    """Not twice as many: 20 % of ten are two. And stable stays available all the while, so that routes are written."""
    model = standard_live(replicas=replicas)
    drive(model, StartCanary(V3, 20), rounds=1)
    ways = futures(model)
    assert max(one.replicas(STABLE) for one in ways) == replicas + extra
    assert all(one.state.is_ready for one in ways)


def test_replicas_grow_with_the_weight() -> None:
    """Before each raise the canary gets what the coming weight needs; stable keeps its own throughout."""
    model = standard_live(replicas=5)
    grown = []
    for goal in (StartCanary(V3, 5), ShiftWeight(50), ShiftWeight(99), Promote()):
        drive(model, goal)
        grown.append((model.available(CANDIDATE), model.available(STABLE)))
    assert grown == [(1, 5), (3, 5), (5, 5), (5, 0)]
    assert model.spec["predictor"]["minReplicas"] == 5


@pytest.mark.parametrize("goal", [RollBack(V2, V3), Promote(V3)])
def test_no_min_replicas_are_none_again(goal: Any) -> None:
    """Where the owner set none, an autoscaler of another kind has asked for three: none stands there afterwards."""
    model = standard_live(replicas=None)
    stable = model.state.workload(STABLE)
    assert stable is not None
    started = next_action(StartCanary(V3, 99), model.read())
    assert isinstance(started, Patch)
    model.patch(dict(started.body))
    model.settle()
    drive(model, StartCanary(V3, 99))
    drive(model, goal)
    assert "minReplicas" not in model.spec["predictor"]


def test_replicas_that_somebody_changed_meanwhile_are_theirs() -> None:
    """At the end of a canary stable's minReplicas go back to what they were, but not if others have set them."""
    model = canary_at(20, replicas=4)
    model.patch({"metadata": {}, "spec": {"predictor": {"minReplicas": 6}}})
    drive(model, RollBack(V2, V3))
    assert model.spec["predictor"]["minReplicas"] == 6


def test_a_raise_is_refused_where_others_have_left_stable_too_few() -> None:
    """KServe would take the candidate's replicas from them, and nothing warm would be there to go back to."""
    model = canary_at(20, replicas=4)
    model.patch({"metadata": {}, "spec": {"predictor": {"minReplicas": 4}}})
    action = next_action(ShiftWeight(99), model.read())
    assert isinstance(action, Impossible)
    assert action.kind == "foreign_change"
    assert "minReplicas" in action.reason


def test_one_missing_pod_is_allowed_for_from_the_first_canary_on() -> None:
    """The canary's patch sets maxUnavailable for stable and candidate, and restarts nobody."""
    model = canary_at(20, replicas=3)
    stable, candidate = (model.state.workload(name) for name in (STABLE, CANDIDATE))
    assert stable is not None
    assert candidate is not None
    assert (stable.max_unavailable, candidate.max_unavailable) == ("50%", "50%")
    assert stable.newest.number == 1


@pytest.mark.parametrize(
    "strategy", [{"rollingUpdate": {"maxUnavailable": 1}}, {"type": "Recreate"}], ids=["number", "Recreate"]
)
def test_what_the_owner_says_of_missing_pods_stays(strategy: dict[str, Any]) -> None:
    """A maxUnavailable of the owner's, or a strategy that has none, is not written over."""
    model = canary_at(20, replicas=3, predictor={"deploymentStrategy": strategy})
    assert model.spec["predictor"]["deploymentStrategy"] == strategy
    assert "deploymentStrategy" not in model.spec["canary"][0]["predictor"]


def test_a_smaller_percent_does_not_take_the_canarys_pods_away_before_the_route() -> None:
    """Without a minReplicas of its own a canary loses pods with its percent; ours keeps those that still have users."""
    model = canary_at(99, replicas=4)
    entry = copy.deepcopy(model.spec["canary"][0])
    del entry["predictor"]["minReplicas"]
    derived = naive(model, {"canary": [{**entry, "trafficPercent": 0}]})
    assert min(one.available(CANDIDATE) for one in futures(derived) if one.share(V3) == 99) == 1
    patched(model, RollBack(V2, V3))
    assert failing(model) == 0
    assert {one.available(CANDIDATE) for one in futures(model) if one.share(V3) == 99} == {4}
