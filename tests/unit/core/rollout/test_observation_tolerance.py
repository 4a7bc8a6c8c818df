"""InferenceServices that are not as KServe writes them: a rollback works on, and nothing unreadable counts as safe."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_core.rollout.fields import STABLE_MIN_REPLICAS
from slipway_core.rollout.next_action import (
    Done,
    Impossible,
    Patch,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    next_action,
)
from slipway_sandbox.lab.simulation.knative_model import live_model
from slipway_sandbox.lab.simulation.standard_model import standard_live
from tests.support.rollout.reading import observe

V2, V3 = "s3://b/v2", "s3://b/v3"
BACK = RollBack(V2, V3)
Json = dict[str, Any]


def canary(model: Any, weight: int = 5) -> Any:
    """Bring a canary of V3 to its weight."""
    goal = StartCanary(V3, weight, "r", 3)
    for _ in range(12):
        action = next_action(goal, model.read())
        if isinstance(action, Patch):
            model.patch(action.body)
        model.settle()
    return model


def changed(isvc: Json, path: str, value: Any) -> Json:
    """The object with another value at a dotted path."""
    isvc = copy.deepcopy(isvc)
    *parents, last = path.split(".")
    node: Any = isvc
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    node[int(last) if isinstance(node, list) else last] = value
    return isvc


JUNK: tuple[Any, ...] = (
    None,
    [],
    [[]],
    {},
    7,
    True,
    "text",
    -1,
    10**30,
    float("inf"),
    [None],
    [{"percent": "x"}],
)
PLACES = (
    "metadata.annotations",
    "metadata.generation",
    "metadata.managedFields",
    "status.observedGeneration",
    "status.conditions",
    "status.components",
    "status.components.predictor.traffic",
    "status.modelStatus",
    "status.canaryStatuses",
    "spec.canary",
    "spec.predictor",
    "spec.predictor.canaryTrafficPercent",
    "spec.predictor.minReplicas",
    "spec.predictor.annotations",
)
BEHIND = (
    "metadata",
    "metadata.generation",
    "spec",
    "spec.template",
    "spec.template.metadata.annotations",
    "spec.traffic",
    "status",
    "status.conditions",
    "status.observedGeneration",
    "status.latestReadyRevisionName",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [live_model, standard_live])
def test_junk_anywhere_keeps_no_rollback_from_its_decision(make: Any, place: str) -> None:
    """Whatever stands at a place that is read, both observation and rollback come to an answer."""
    model = canary(make())
    routes = model.routes() if hasattr(model, "routes") else []
    for junk in JUNK:
        action = next_action(BACK, observe(changed(model.as_object(), place, junk), routes))
        assert action.reason


@pytest.mark.parametrize("place", BEHIND)
def test_junk_behind_the_service_proves_nothing(place: str) -> None:
    """A rollback that would be done is not, and one before its release leaves the percent at 0."""
    done, before = live_model(), canary(live_model())
    for _ in range(2):
        before.patch(next_action(BACK, before.read()).body)  # type: ignore[union-attr]
        before.settle()
    assert isinstance(next_action(BACK, before.read()), Patch)
    for junk in JUNK:
        behind = changed(done.knative_service(), place, junk)
        seen = observe(done.as_object(), behind=behind, revisions=done.revision_objects())
        assert isinstance(next_action(BACK, seen), Wait), (place, junk)
    for junk in (*JUNK, [{}], {"metadata": {"annotations": 7}}):
        revisions = junk if isinstance(junk, list) else [junk]
        seen = observe(before.as_object(), behind=before.knative_service(), revisions=revisions)
        assert isinstance(next_action(BACK, seen), Wait), junk


@pytest.mark.parametrize("percent", ["many", "0", -5, 101, 5.5, [], {}, True, float("nan")])
def test_a_percent_that_cannot_be_read_is_taken_back_and_never_raised(percent: Any) -> None:
    """A weight of no known form reads as everyone: the rollback shields, and no forward goal acts."""
    isvc = changed(canary(live_model()).as_object(), "spec.predictor.canaryTrafficPercent", percent)
    observed = observe(isvc)
    action = next_action(BACK, observed)
    assert isinstance(action, Patch)
    assert action.body["spec"] == {"predictor": {"canaryTrafficPercent": 0}}
    forward = next_action(ShiftWeight(50, V3), observed)
    assert isinstance(forward, Impossible)
    assert "canaryTrafficPercent" in forward.reason


@pytest.mark.parametrize(
    "share",
    [
        "text",
        {"revisionName": "x", "percent": "5"},
        {"percent": 5},
        {"revisionName": {}, "percent": 5},
        {"latestRevision": [{}], "percent": 5},
        5,
    ],
)
def test_a_share_that_cannot_be_read_never_counts_as_safe(share: Any) -> None:
    """Traffic of which a part is unknown may be the bad revision's: the rollback waits on."""
    model = canary(live_model())
    model.patch(next_action(BACK, model.read()).body)  # type: ignore[union-attr]
    model.settle()
    isvc = model.as_object()
    isvc["status"]["components"]["predictor"]["traffic"].append(share)
    observed = observe(isvc)
    action = next_action(BACK, observed)
    assert not isinstance(action, Done)
    assert not (isinstance(action, Wait) and action.users_safe)
    assert not observed.is_shielded_from(V3)


@pytest.mark.parametrize(
    "reference", ["text", {"weight": 5}, {"name": "x", "weight": "5"}, {"name": "x", "weight": -1}]
)
def test_a_route_with_an_unreadable_backend_never_counts_as_safe(reference: Any) -> None:
    """In Standard mode too: the router may lead users anywhere by what cannot be read."""
    model = canary(standard_live())
    model.patch(next_action(BACK, model.read()).body)  # type: ignore[union-attr]
    model.settle()
    routes = model.routes()
    assert observe(model.as_object(), routes).is_shielded_from(V3)
    routes[0]["spec"]["rules"][0]["backendRefs"].append(reference)
    observed = observe(model.as_object(), routes)
    action = next_action(BACK, observed)
    assert not isinstance(action, Done)
    assert not (isinstance(action, Wait) and action.users_safe)
    assert not observed.is_shielded_from(V3)


def test_an_unreadable_weight_of_a_canary_in_standard_mode_is_taken_back() -> None:
    """`trafficPercent: "x"` is patched to 0 by a rollback, and refused by a forward goal."""
    model = canary(standard_live())
    isvc = changed(model.as_object(), "spec.canary.0.trafficPercent", "x")
    observed = observe(isvc, model.routes())
    action = next_action(BACK, observed)
    assert isinstance(action, Patch)
    assert action.body["spec"]["canary"][0]["trafficPercent"] == 0
    assert isinstance(next_action(ShiftWeight(50, V3), observed), Impossible)


@pytest.mark.parametrize("note", ["²", "9" * 5000, "-1", "٣", ""])
def test_a_strange_note_of_replicas_does_not_keep_the_canary_from_being_removed(note: str) -> None:
    """A note that is no number of replicas is left out of the patch that ends the rollback."""
    model = canary(standard_live())
    for _ in range(3):
        action = next_action(BACK, model.read())
        if isinstance(action, Patch) and "Take all users" in action.reason:
            model.patch(action.body)
        model.settle()
    isvc = changed(model.as_object(), "spec.canary.0.predictor.annotations", {})
    isvc["spec"]["canary"][0]["predictor"]["annotations"] = {
        **model.as_object()["spec"]["canary"][0]["predictor"]["annotations"],
        STABLE_MIN_REPLICAS: note,
    }
    action = next_action(BACK, observe(isvc, model.routes()))
    assert isinstance(action, Patch)
    assert action.body["spec"]["canary"] is None
