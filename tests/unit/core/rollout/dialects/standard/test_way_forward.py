from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_core.rollout.dialects.standard.view import predictor_name
from slipway_core.rollout.next_action import (
    Done,
    Goal,
    Impossible,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    next_action,
)
from slipway_sandbox.lab.simulation.edits import V1, V2, V3
from slipway_sandbox.lab.simulation.standard_model import standard_live
from tests.support.rollout.reading import observe
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

# --- the way forward ---


def test_a_canary_goes_up_in_steps_and_is_promoted() -> None:
    """Start, shift and promote reach exactly the split that was asked for, and the canary's pods are kept."""
    model = canary_at(20)
    assert model.users() == {V2: 80, V3: 20}
    drive(model, ShiftWeight(50))
    assert model.users() == {V2: 50, V3: 50}
    drive(model, Promote())
    assert model.users() == {V3: 100}
    promoted = model.state.workload(CANDIDATE)
    assert promoted is not None
    assert [pods.number for pods in promoted.pods] == [1]
    assert [workload.name for workload in model.state.workloads] == [CANDIDATE]


def test_both_dialects_answer_the_same_questions() -> None:
    """Who is the candidate, who stable, what has which share, is it up: one value tells, without the dialect."""
    observed = canary_at(20).read()
    assert (observed.dialect, observed.storage_uri, observed.canary_percent) == ("Standard", V3, 20)
    assert (observed.latest_created, observed.stable_revision) == (CANDIDATE, STABLE)
    assert (observed.share(CANDIDATE), observed.share(STABLE)) == (20, 80)
    assert observed.candidate_ready
    assert observed.stable_uri == V2
    assert observed.annotation("slipway.dev/release") == "digits-3"
    assert observed.annotation("slipway.dev/stable-uri") == V2
    assert observed.revision_of(V3) == CANDIDATE
    assert not observed.is_shielded_from(V3)


def test_after_a_rollback_the_revision_of_the_bad_version_is_still_known() -> None:
    """Its name follows from its storageUri, so its last counters can be read without any note."""
    model = canary_at(20)
    drive(model, RollBack(V2, V3))
    assert model.read().revision_of(V3) == CANDIDATE
    assert model.read().revision_of(V2) == STABLE
    assert model.read().is_shielded_from(V3)


def test_notes_lie_in_the_canary_and_restart_nobody() -> None:
    """No patch of ours touches the object's annotations, which would replace stable's pods; a naive note does."""
    model = standard_live()
    for goal in (START, ShiftWeight(50), RollBack(V2, V3)):
        action = next_action(goal, model.read())
        assert isinstance(action, Patch)
        assert "annotations" not in action.body["metadata"]
        drive(model, goal)
    stable = model.state.workload(STABLE)
    assert stable is not None
    assert stable.newest.number == 1
    noted = standard_live()
    noted.patch({"metadata": {"annotations": {"slipway.dev/release": "digits-3"}}, "spec": {}})
    noted.settle()
    restarted = noted.state.workload(STABLE)
    assert restarted is not None
    assert restarted.newest.number == 2


def test_weights_only_count_when_the_route_has_them() -> None:
    """The status repeats 50 % at once; the step is not reached before the route, and its Gateway, have it."""
    model = canary_at(20)
    patched(model, ShiftWeight(50))
    for name in ("sync", "reconcile", "status"):
        model.step(name)
    assert model.status["canaryStatuses"][0]["trafficPercent"] == 50
    assert model.users() == {V2: 80, V3: 20}
    assert isinstance(next_action(ShiftWeight(50), model.read()), Wait)
    for name in ("sync", "reconcile", "route"):
        model.step(name)
    assert model.read().share(CANDIDATE) == 50
    assert isinstance(next_action(ShiftWeight(50), model.read()), Wait)
    model.step("gateway")
    assert isinstance(next_action(ShiftWeight(50), model.read()), Done)


def test_kserve_without_weights_never_reaches_a_step() -> None:
    """KServe 0.20 makes the canary and its status, but no weights: all users stay, and the wait says why."""
    model = standard_live(weighs=False)
    action = drive(model, START)
    assert isinstance(action, Wait)
    assert "0.21" in action.reason
    assert model.users() == {V2: 100}
    assert isinstance(drive(model, RollBack(V2, V3)), Done)


def test_promotion_leads_everyone_to_the_candidate_before_the_old_one_goes() -> None:
    """KServe deletes the old Deployment before it changes the route: promoted at 20 %, 80 % are led nowhere."""
    model = canary_at(20)
    entry = model.spec["canary"][0]["predictor"]
    at_once = naive(model, {"canary": None, "predictor": {"name": entry["name"], "model": entry["model"]}})
    assert failing(at_once) == 80
    assert patched(model, Promote()).body["spec"]["canary"][0]["trafficPercent"] == 100
    assert isinstance(next_action(Promote(), model.read()), Wait)
    assert failing(model) == 0
    model.settle()
    patched(model, Promote())
    assert failing(model) == 0
    model.settle()
    assert isinstance(next_action(Promote(V3), model.read()), Done)


def test_promotion_takes_the_canarys_name() -> None:
    """Under stable's own name users are back on the old version until new pods are up; ours keeps the pods."""
    model = canary_at(99)
    same_name = naive(model, {"canary": None, "predictor": {"model": {"storageUri": V3}}})
    for name in ("sync", "reconcile", "route", "status", "gateway"):
        same_name.step(name)
    assert same_name.users() == {V2: 100}
    drive(model, Promote())
    assert model.users() == {V3: 100}
    assert model.spec["predictor"]["name"] == predictor_name(V3)


@pytest.mark.parametrize("goal", [START, ShiftWeight(50), Promote()])
def test_every_patch_names_the_version_it_was_decided_on(goal: Goal) -> None:
    """The list is replaced whole, so a patch that does not fit the state that was read is refused (409)."""
    model = standard_live() if goal is START else canary_at(20)
    action = next_action(goal, model.read())
    assert isinstance(action, Patch)
    assert action.body["metadata"] == {"resourceVersion": str(model.resource_version)}


def test_an_entry_keeps_what_somebody_added_to_it() -> None:
    """A new weight replaces the list, and gives back all else that stands in it."""
    model = canary_at(20)
    entry = copy.deepcopy(model.spec["canary"][0])
    entry["predictor"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    model.patch({"metadata": {}, "spec": {"canary": [entry]}})
    model.settle()
    patched(model, ShiftWeight(50))
    assert model.spec["canary"] == [{**entry, "trafficPercent": 50}]


def other_canary(percent: int) -> dict[str, Any]:
    predictor = {"name": "theirs", "model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://b/x"}}
    return {"trafficPercent": percent, "predictor": predictor}


@pytest.mark.parametrize("goal", [START, StartCanary("s3://b/v4", 5)])
def test_no_canary_beside_somebody_elses(goal: Goal) -> None:
    """An entry that slipway did not make is left alone, and nothing is started beside it."""
    model = standard_live()
    model.patch({"metadata": {}, "spec": {"canary": [other_canary(10)]}})
    model.settle()
    action = next_action(goal, model.read())
    assert isinstance(action, Impossible)
    assert action.kind == "foreign_change"


def test_somebody_elses_canary_survives_our_rollback() -> None:
    """Begun during ours it stops every forward step; the rollback takes ours away, leaves theirs, and says so."""
    model = canary_at(20)
    model.patch({"metadata": {}, "spec": {"canary": [*model.spec["canary"], other_canary(10)]}})
    model.settle()
    for goal in (ShiftWeight(50), Promote()):
        assert isinstance(next_action(goal, model.read()), Impossible)
    action = drive(model, RollBack(V2, V3))
    assert isinstance(action, Impossible)
    assert model.spec["canary"] == [other_canary(10)]
    assert model.share(V3) == 0


def test_a_second_canary_is_not_laid_over_the_first() -> None:
    """While one canary runs another release is refused, and the refusal names the release under way."""
    action = next_action(StartCanary("s3://b/v4", 5), canary_at(5).read())
    assert isinstance(action, Impossible)
    assert "digits-3" in action.reason


def test_what_is_live_cannot_become_a_canary() -> None:
    """The version that is served already is refused."""
    assert isinstance(next_action(StartCanary(V2, 5), standard_live().read()), Impossible)


def test_a_changed_stable_version_stops_the_canary() -> None:
    """What the candidate is compared with is not what it was: no step forward, and the change is told."""
    model = canary_at(20)
    model.patch({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": V1}}}})
    for goal in (ShiftWeight(50, V3), Promote(V3), RollBack(V2, V3)):
        action = next_action(goal, model.read())
        assert isinstance(action, Impossible)
        assert action.kind == "foreign_change"


@pytest.mark.parametrize("weight", [-1, 0, 100, 101])
def test_weights_outside_1_to_99_are_refused(weight: int) -> None:
    """0 marks a rollback and 100 a promotion; neither is a weight."""
    assert isinstance(next_action(StartCanary(V3, weight), standard_live().read()), Impossible)
    assert isinstance(next_action(ShiftWeight(weight), canary_at(5).read()), Impossible)


def test_a_promotion_under_way_is_not_shifted_back() -> None:
    """A duplicate of the last step meets percent 100 and leaves it."""
    model = canary_at(99)
    patched(model, Promote())
    assert isinstance(next_action(ShiftWeight(99), model.read()), Impossible)


def test_a_long_name_is_refused_before_the_canary() -> None:
    """A Service's name has at most 63 characters; the refusal says which name would be too long."""
    service = standard_live()
    isvc = service.as_object()
    isvc["metadata"]["name"] = "d" * 50
    routes = service.routes()
    for route in routes:
        route["metadata"]["name"] = "d" * 50
        route["spec"]["rules"][0]["backendRefs"][0]["name"] = f"{'d' * 50}-predictor"
    action = next_action(START, observe(isvc, routes))
    assert isinstance(action, Impossible)
    assert "63" in action.reason
