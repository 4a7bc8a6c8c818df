"""KServe's Standard mode: how many pods each version has during a canary and after it."""

from __future__ import annotations

import copy

from include.model_release.rollout.next_action import (
    RollBack,
    ShiftWeight,
)
from include.sandbox.lab.simulation.cluster_model import futures
from include.sandbox.lab.simulation.standard_model import standard_live
from tests.support.rollout.standard_steps import (
    STABLE,
    START,
    V2,
    V3,
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
        least += [one.replicas(STABLE) for one in futures(model)]
        model.settle()
    patched(model, RollBack(V2, V3))
    least += [one.replicas(STABLE) for one in futures(model)]
    assert min(least) == 4
    drive(model, RollBack(V2, V3))
    assert model.replicas(STABLE) == 4
    assert model.spec["predictor"]["minReplicas"] == 4


def test_replicas_that_somebody_changed_meanwhile_are_theirs() -> None:
    """At the end of a canary stable's minReplicas go back to what they were, but not if others have set them."""
    model = canary_at(20, replicas=4)
    model.patch({"metadata": {}, "spec": {"predictor": {"minReplicas": 6}}})
    drive(model, RollBack(V2, V3))
    assert model.spec["predictor"]["minReplicas"] == 6


def test_percent_0_does_not_take_the_canarys_pods_away_before_the_route() -> None:
    """Without a minReplicas of its own a canary has no pods at 0 %, at once: who is still led there gets an error."""
    model = canary_at(50)
    entry = copy.deepcopy(model.spec["canary"][0])
    del entry["predictor"]["minReplicas"]
    derived = naive(model, {"canary": [entry]})
    derived.settle()
    assert failing(naive(derived, {"canary": [{**entry, "trafficPercent": 0}]})) == 50
    patched(model, RollBack(V2, V3))
    assert failing(model) == 0
