"""A status may be older than the spec: nothing is dropped, raised or called done by it (Knative mode)."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.next_action import (
    Delete,
    Done,
    FirstDeploy,
    Goal,
    Impossible,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    Withdraw,
    next_action,
    serving_doubt,
)
from slipway_sandbox.lab.simulation.cluster_model import worst_share
from slipway_sandbox.lab.simulation.edits import V1, V2, V3, V4, naming
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from tests.support.rollout.knative_steps import canary_at, drive
from tests.support.rollout.reading import observe

BACK = RollBack(V2, V3)
FORBIDDEN = "reading the Revision models/digits-predictor-00003 failed: HTTP 403 Forbidden"


def name(model: KnativeModel, uri: str, **others: Any) -> None:
    """Have a person name a version."""
    model.patch(naming(uri, **others))


def patched(model: KnativeModel, goal: Goal) -> Patch:
    """Return the next action, which must be a patch, after performing it; the controllers rest."""
    action = next_action(goal, model.read())
    assert isinstance(action, Patch), action
    model.patch(dict(action.body))
    return action


def restored(**settings: Any) -> KnativeModel:
    """A canary that was taken back so far that the good version answers again, with percent 0 still set."""
    model = canary_at(20, **settings)
    for _ in range(2):
        patched(model, BACK)
        model.settle()
    return model


# --- the way back ---


@pytest.mark.parametrize("own_generation", [True, False])
def test_the_percent_stays_0_beside_a_person_who_names_the_good_version_again(own_generation: bool) -> None:
    """KServe has not acted: the newest ready revision is the bad one, whatever the status and its generation say."""
    model = canary_at(20, own_generation=own_generation)
    patched(model, BACK)
    name(model, V2)
    assert isinstance(next_action(BACK, model.read()), Wait)
    assert worst_share(model, V3) == 20
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}


@pytest.mark.parametrize("own_generation", [True, False])
def test_a_rollback_is_not_done_while_kserve_has_not_acted_on_the_spec(own_generation: bool) -> None:
    """The bad version has everybody, and a person names the good one: the status is settled, and about the bad one."""
    model = canary_at(20, own_generation=own_generation)
    drive(model, Promote(V3))
    name(model, V2)
    observed = model.read()
    action = next_action(BACK, observed)
    assert isinstance(action, Wait)
    assert V3 in action.reason
    assert not observed.is_shielded_from(V3)
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}


def test_what_kserve_may_still_hold_is_not_let_through_by_the_release() -> None:
    """A person names the bad version and the good one again; KServe has read the first and not acted on it."""
    model = restored()
    name(model, V3)
    model.step("sync")
    name(model, V2)
    action = patched(model, BACK)
    assert action.body["spec"]["predictor"]["canaryTrafficPercent"] == 0
    for step in ("kserve", "configuration", "ready_newest", "sync", "kserve", "route", "ingress"):
        model.step(step)
    assert model.share(V3) == 0
    assert isinstance(next_action(BACK, model.read()), Wait)
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}


def test_a_change_of_anything_else_costs_one_more_revision_and_no_user() -> None:
    """Whoever changes the spec during a rollback has the good version named once more, and it ends as ever."""
    model = restored()
    model.patch({"metadata": {}, "spec": {"predictor": {"minReplicas": 3}}})
    action = patched(model, BACK)
    assert action.body["spec"]["predictor"]["annotations"] == {
        "slipway.dev/restored-at-generation": str(model.generation)
    }
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}


def test_the_note_of_a_rollback_goes_with_the_next_canary() -> None:
    """What stands for nothing any more is taken away in the patch that makes a new revision anyway."""
    model = canary_at(20)
    drive(model, BACK)
    assert "annotations" in model.spec
    drive(model, StartCanary(V4, 5))
    assert not model.spec["annotations"]


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        {"unseen": FORBIDDEN},
        {"behind": "read"},
        {"behind": "read", "unseen": FORBIDDEN},
    ],
    ids=["not read", "forbidden", "no revisions", "revisions forbidden"],
)
def test_without_what_lies_behind_nothing_is_dropped_and_nothing_is_done(evidence: dict[str, Any]) -> None:
    """The percent stays 0, and why is said; the patch to 0 itself waits for nothing."""
    model = canary_at(20)

    def seen() -> Any:
        given = {**evidence, "behind": model.knative_service()} if "behind" in evidence else evidence
        return observe(model.as_object(), **given)

    shield = next_action(BACK, seen())
    assert isinstance(shield, Patch)
    assert shield.body["spec"] == {"predictor": {"canaryTrafficPercent": 0}}
    model = restored()
    action = next_action(BACK, seen())
    assert isinstance(action, Wait)
    assert action.users_safe
    assert evidence.get("unseen", "") in action.reason
    drive(model, BACK)
    assert isinstance(next_action(BACK, model.read()), Done)
    assert isinstance(next_action(BACK, seen()), Wait)


def test_a_rollback_beside_a_person_writes_the_traffic_itself_where_kserve_hangs() -> None:
    """Percent 0 is in the spec, and so is the good version; nobody carries either on."""
    model = canary_at(20)
    patched(model, BACK)
    name(model, V2)
    action = next_action(BACK, model.read())
    assert isinstance(action, Wait)
    assert isinstance(action.fallback, PatchMade)
    model.patch_made(action.fallback)
    for step in ("route", "ingress"):
        model.step(step)
    assert model.users() == {V2: 100}


def test_percent_0_is_not_set_where_it_leads_to_the_bad_version() -> None:
    """The bad version is rolled out, and a person gives the good one a share: that share is not taken away."""
    model = canary_at(20)
    drive(model, Promote(V3))
    name(model, V2, canaryTrafficPercent=30)
    model.settle()
    assert model.users() == {V2: 30, V3: 70}
    action = patched(model, BACK)
    assert action.body["spec"]["predictor"]["canaryTrafficPercent"] == 30
    assert worst_share(model, V3) == 70
    assert isinstance(drive(model, BACK), Done)
    assert model.users() == {V2: 100}


# --- the way forward ---


def changed_and_back(model: KnativeModel) -> None:
    """Have a person name another version, which comes up, and the candidate again; KServe has not acted on that."""
    name(model, V4)
    model.settle()
    name(model, V3)


@pytest.mark.parametrize("goal", [ShiftWeight(50, V3), Promote(V3)])
def test_no_weight_is_raised_where_somebody_else_has_named_a_version(goal: Goal) -> None:
    """It names the candidate again, and KServe may still hold the other one: who did it is told."""
    model = canary_at(20)
    name(model, V4)
    model.step("sync")
    name(model, V3)
    action = next_action(goal, model.read())
    assert isinstance(action, Impossible)
    assert action.kind == "foreign_change"
    assert "somebody" in action.reason


@pytest.mark.parametrize("goal", [ShiftWeight(50, V3), ShiftWeight(20, V3), Promote(V3)])
def test_no_step_forward_takes_another_versions_revision_for_the_candidate(goal: Goal) -> None:
    """Also where the API server does not tell who has changed what: the newest revision serves the other version."""
    model = canary_at(20)
    changed_and_back(model)
    service = model.as_object()
    service["metadata"].pop("managedFields")
    seen = observe(service, behind=model.knative_service(), revisions=model.revision_objects())
    action = next_action(goal, seen)
    assert isinstance(action, Wait)
    assert V4 in action.reason


def test_a_smaller_weight_waits_for_no_proof() -> None:
    """Taking users back needs nothing but the InferenceService."""
    model = canary_at(20)
    assert isinstance(next_action(ShiftWeight(5, V3), observe(model.as_object())), Patch)
    assert isinstance(next_action(ShiftWeight(50, V3), observe(model.as_object())), Wait)


@pytest.mark.parametrize("goal", [StartCanary(V3, 5), Promote(V3), FirstDeploy({})])
def test_a_version_that_is_only_named_is_not_live(goal: Goal) -> None:
    """A person has just named another one; the settled status is about the one before."""
    model = live_model()
    named = V4 if isinstance(goal, StartCanary) else V3
    name(model, named)
    if isinstance(goal, FirstDeploy):
        goal = FirstDeploy({"spec": {"predictor": {"model": {"storageUri": named}}}})
    assert isinstance(next_action(goal, model.read()), Wait)
    assert serving_doubt(model.read())
    model.settle()
    assert not serving_doubt(model.read())
    assert not isinstance(next_action(goal, model.read()), Wait)


def test_a_version_is_not_withdrawn_while_another_one_may_have_the_users() -> None:
    """A first version that a person has just replaced in the spec still serves; the status does not tell."""
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": V1}}}})
    model.settle()
    assert isinstance(next_action(Withdraw(V1), model.read()), Delete)
    name(model, V2)
    assert isinstance(next_action(Withdraw(V2), model.read()), Impossible)
    assert isinstance(next_action(Withdraw(V2), observe(model.as_object())), Wait)
