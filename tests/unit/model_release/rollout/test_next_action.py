from __future__ import annotations

import copy
from typing import Any

import pytest

from include.model_release.rollout.inference_service import inference_service_manifest
from include.model_release.rollout.next_action import (
    Create,
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
)
from include.model_release.rollout.observation import observe
from include.model_release.spec.release_file import parse_release_spec
from include.sandbox.lab.simulation.cluster_model import worst_share
from include.sandbox.lab.simulation.knative_model import STEPS, KnativeModel, live_model

V1, V2, V3 = "s3://b/v1", "s3://b/v2", "s3://b/v3"


def drive(model: KnativeModel, goal: Goal, rounds: int = 30) -> Any:
    """Perform what is next until there is nothing more to do; return the last action."""
    action: Any = None
    for _ in range(rounds):
        action = next_action(goal, model.read())
        if isinstance(action, Done | Impossible):
            return action
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        model.settle(rounds=3)
    return action


def canary_at(weight: int, **settings: Any) -> KnativeModel:
    model = live_model(**settings)
    assert isinstance(drive(model, StartCanary(V3, weight, release_id="digits-3", version=3)), Done)
    return model


# --- the way forward ---


@pytest.mark.parametrize("own_generation", [True, False])
def test_a_canary_goes_up_in_steps_and_is_promoted(own_generation: bool) -> None:
    """Start, shift and promote reach exactly the split that was asked for, whatever observedGeneration means."""
    model = canary_at(5, own_generation=own_generation)
    assert model.users() == {V2: 95, V3: 5}
    assert isinstance(drive(model, ShiftWeight(50)), Done)
    assert model.users() == {V2: 50, V3: 50}
    assert isinstance(drive(model, Promote()), Done)
    assert model.users() == {V3: 100}


def test_the_first_canary_patch_carries_uri_and_percent_and_the_version_it_was_decided_on() -> None:
    """New storageUri and percent go in one patch, with the observed resourceVersion and a note of the good
    version.
    """
    model = live_model()
    action = next_action(StartCanary(V3, 5, release_id="digits-3", version=3), model.read())
    assert isinstance(action, Patch)
    assert action.body["spec"]["predictor"] == {"canaryTrafficPercent": 5, "model": {"storageUri": V3}}
    assert action.body["metadata"]["resourceVersion"] == str(model.resource_version)
    notes = action.body["metadata"]["annotations"]
    assert notes["slipway.dev/stable-uri"] == V2
    assert notes["slipway.dev/stable-revision"] == "digits-predictor-00002"
    assert notes["slipway.dev/release"] == "digits-3"
    assert notes["slipway.dev/version"] == "3"


@pytest.mark.parametrize("goal", [ShiftWeight(50), Promote(), RollBack(V2)])
def test_only_patches_of_the_storage_uri_touch_annotations(goal: Goal) -> None:
    """A patch of annotations alone would make a new Knative revision, so weights and promotion leave them
    alone.
    """
    action = next_action(goal, canary_at(5).read())
    assert isinstance(action, Patch)
    assert "annotations" not in action.body["metadata"]


def test_a_running_canary_keeps_its_revision_through_all_weights() -> None:
    """No step before the end makes a third revision, even where annotations reach the revision template."""
    model = canary_at(5, annotations_reach_revisions=True)
    drive(model, ShiftWeight(50))
    drive(model, Promote())
    assert len(model.revisions) == 3


def test_the_storage_uri_that_is_live_cannot_become_a_canary() -> None:
    """The same storageUri makes no new revision; a percent on it would revive the version before it: refused."""
    assert isinstance(next_action(StartCanary(V2, 5), live_model().read()), Impossible)


def test_no_canary_before_anything_was_rolled_out() -> None:
    """KServe ignores the percent while no revision was ever rolled out, so a canary would get everything:
    refused.
    """
    model = KnativeModel()
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": V1}}}})
    assert isinstance(next_action(StartCanary(V2, 5), model.read()), Impossible)


@pytest.mark.parametrize("weight", [-1, 0, 100, 101])
def test_weights_outside_1_to_99_are_refused(weight: int) -> None:
    """0 marks a rollback and 100 is a promotion; neither is a weight."""
    assert isinstance(next_action(StartCanary(V3, weight), live_model().read()), Impossible)
    assert isinstance(next_action(ShiftWeight(weight), canary_at(5).read()), Impossible)


def test_a_second_canary_is_not_laid_over_the_first() -> None:
    """While one canary runs another release is refused, and the refusal names the release under way."""
    action = next_action(StartCanary("s3://b/v4", 5), canary_at(5).read())
    assert isinstance(action, Impossible)
    assert "digits-3" in action.reason


def test_a_canary_that_does_not_load_is_told_and_all_users_stay() -> None:
    """latestCreated differs from latestReady and the load is blocked: impossible, with all users on the old
    version.
    """
    model = live_model(unloadable=frozenset({V3}))
    action = drive(model, StartCanary(V3, 5))
    assert isinstance(action, Impossible)
    assert action.kind == "load_failed"
    assert model.users() == {V2: 100}


def test_a_failure_of_another_revision_is_not_held_against_the_candidate() -> None:
    """lastFailureInfo stays in the status; where it names another revision it says nothing about the newest
    one.
    """
    isvc = canary_at(5).as_object()
    isvc["status"]["modelStatus"] = {
        "transitionStatus": "BlockedByFailedLoad",
        "lastFailureInfo": {"modelRevisionName": "digits-predictor-00001", "message": "old"},
    }
    assert observe(isvc).failure is None


def test_promotion_waits_for_the_candidate_to_answer() -> None:
    """Dropping the percent before the candidate is ready would promote it unseen: wait instead."""
    model = live_model()
    action = next_action(StartCanary(V3, 5), model.read())
    assert isinstance(action, Patch)
    model.patch(dict(action.body))
    assert isinstance(next_action(Promote(V3), model.read()), Wait)


@pytest.mark.parametrize(
    "goal", [StartCanary(V3, 5), ShiftWeight(50), ShiftWeight(50, V3), Promote(), Promote(V3)]
)
def test_nothing_goes_forward_once_a_rollback_was_decided(goal: Goal) -> None:
    """A duplicate task of the release meets percent 0, or the good version, and must not raise the share
    again.
    """
    model = canary_at(5)
    while not isinstance(action := next_action(RollBack(V2), model.read()), Done):
        if isinstance(action, Patch):
            model.patch(dict(action.body))
            assert isinstance(next_action(goal, model.read()), Impossible)
        model.settle(rounds=2)
    assert isinstance(next_action(goal, model.read()), Impossible)


def test_a_version_that_was_rolled_back_needs_force() -> None:
    """After a rollback the same URI is refused as a canary, unless forced."""
    model = canary_at(5)
    drive(model, RollBack(V2))
    assert isinstance(next_action(StartCanary(V3, 5), model.read()), Impossible)
    assert isinstance(next_action(StartCanary(V3, 5, force=True), model.read()), Patch)


def test_what_someone_else_changed_is_left_alone() -> None:
    """A third storageUri in the spec means someone else is at work: neither forward nor back touches it."""
    model = canary_at(5)
    model.patch({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": "s3://elsewhere"}}}})
    for goal in (ShiftWeight(50, V3), Promote(V3), RollBack(V2, candidate_uri=V3)):
        action = next_action(goal, model.read())
        assert isinstance(action, Impossible)
        assert action.kind == "foreign_change"


# --- first version ---


def _manifest() -> dict[str, Any]:
    spec = parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml")
    return inference_service_manifest(spec, V1, release_id="digits-1", version=1)


def test_a_first_version_is_created_and_takes_all_traffic() -> None:
    """Without an InferenceService it is created, then waited for, then done."""
    goal = FirstDeploy(_manifest())
    created = next_action(goal, None)
    assert isinstance(created, Create)
    model = KnativeModel()
    model.create(dict(created.body))
    assert isinstance(next_action(goal, model.read()), Wait)
    model.settle()
    assert isinstance(next_action(goal, model.read()), Done)


def test_the_manifest_names_triton_and_knative() -> None:
    """The manifest asks for Triton over the whole repository, in the mode in which percents have an effect."""
    manifest = _manifest()
    predictor = manifest["spec"]["predictor"]
    assert manifest["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Knative"
    assert predictor["model"]["storageUri"] == V1
    assert predictor["model"]["runtime"] == "kserve-tritonserver"
    assert predictor["serviceAccountName"] == "slipway-models"
    assert "canaryTrafficPercent" not in predictor


def test_a_first_version_cannot_be_rolled_back_but_withdrawn() -> None:
    """With nothing to go back to a rollback is impossible, and a withdrawal deletes exactly what was seen."""
    model = KnativeModel(unloadable=frozenset({V1}))
    model.create(_manifest())
    model.settle()
    assert isinstance(next_action(RollBack(""), model.read()), Impossible)
    assert isinstance(next_action(RollBack("s3://b/v0"), model.read()), Impossible)
    action = next_action(Withdraw(V1), model.read())
    assert isinstance(action, Delete)
    assert (action.uid, action.resource_version) == ("u", str(model.resource_version))
    assert isinstance(next_action(Withdraw(V1), None), Done)


def test_a_service_that_served_before_is_never_withdrawn() -> None:
    """Deleting would take the good version away too."""
    assert isinstance(next_action(Withdraw(V2), live_model().read()), Impossible)


def test_a_missing_service_is_told() -> None:
    """A rollback of what does not exist says so instead of creating something."""
    action = next_action(RollBack(V2), None)
    assert isinstance(action, Impossible)
    assert action.kind == "absent"


# --- the way back ---


def test_rollback_takes_its_four_phases_in_order() -> None:
    """Percent 0 alone, then the good URI with percent 0, then waiting, then the percent goes; then it is
    done.
    """
    phases: list[str] = []
    model = canary_at(25)
    for _ in range(40):
        action = next_action(RollBack(V2), model.read())
        if action.phase not in phases[-1:]:
            phases.append(action.phase)
        if isinstance(action, Done):
            break
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        else:
            model.step(STEPS[_ % len(STEPS)])
    assert phases == ["shield", "restore", "boot", "release", "done"]
    assert model.users() == {V2: 100}


@pytest.mark.parametrize("weight", [5, 50, 99])
@pytest.mark.parametrize("own_generation", [True, False])
def test_a_rollback_ends_on_the_good_version_alone(weight: int, own_generation: bool) -> None:
    """From any weight the end is the good storageUri in the spec, no percent, all users on it."""
    model = canary_at(weight, own_generation=own_generation)
    assert isinstance(drive(model, RollBack(V2)), Done)
    assert model.users() == {V2: 100}
    assert model.spec["model"]["storageUri"] == V2
    assert "canaryTrafficPercent" not in model.spec


def test_a_promoted_version_can_be_rolled_back_without_waiting_for_a_boot() -> None:
    """After a promotion percent 0 leads to the version before; users are off the bad one before the good one
    boots.
    """
    model = canary_at(5)
    drive(model, Promote())
    action = next_action(RollBack(V2), model.read())
    assert isinstance(action, Patch)
    assert action.phase == "shield"
    model.patch(dict(action.body))
    for _ in range(4):
        for name in ("sync", "kserve", "configuration", "route"):
            model.step(name)
    assert model.users() == {V2: 100}
    assert isinstance(drive(model, RollBack(V2)), Done)


def test_a_promoted_version_is_rolled_forward_over_when_the_one_before_is_not_the_good_one() -> None:
    """Back to an older version than the last stable one: percent 0 would revive a version nobody named, so it
    is not used.
    """
    model = canary_at(5)
    drive(model, Promote())
    action = next_action(RollBack(V1), model.read())
    assert isinstance(action, Patch)
    assert action.phase == "restore"
    assert isinstance(drive(model, RollBack(V1)), Done)
    assert model.users() == {V1: 100}


def test_a_candidate_that_never_came_up_is_rolled_back() -> None:
    """latestCreated differs from latestReady: the rollback still names the good version and ends with all
    users there.
    """
    model = live_model(unloadable=frozenset({V3}))
    drive(model, StartCanary(V3, 5))
    assert isinstance(drive(model, RollBack(V2)), Done)
    assert model.users() == {V2: 100}


def test_a_rollback_before_the_controller_saw_the_canary_waits_for_its_revision() -> None:
    """A status from before the canary proves nothing: the bad revision must have a name before it is
    replaced.
    """
    model = live_model()
    start = next_action(StartCanary(V3, 5), model.read())
    assert isinstance(start, Patch)
    model.patch(dict(start.body))
    shield = next_action(RollBack(V2), model.read())
    assert isinstance(shield, Patch)
    model.patch(dict(shield.body))
    action = next_action(RollBack(V2), model.read())
    assert isinstance(action, Wait)
    assert action.users_safe
    assert isinstance(drive(model, RollBack(V2)), Done)


def test_a_rollback_without_a_canary_is_done_at_once() -> None:
    """Where the start patch never landed, the good version is live alone, and nothing is patched."""
    for own_generation in (True, False):
        model = live_model(own_generation=own_generation)
        assert isinstance(next_action(RollBack(V2), model.read()), Done)


def test_the_bad_revision_is_not_taken_for_the_good_one_while_the_controller_lags() -> None:
    """After the good URI was patched the old status still shows the bad revision as ready: the percent must
    stay.
    """
    for own_generation in (True, False):
        model = canary_at(25, own_generation=own_generation)
        model.generation = 1  # Even a status that claims to be up to date proves nothing.
        for phase in ("shield", "restore"):
            action = next_action(RollBack(V2), model.read())
            assert isinstance(action, Patch)
            assert action.phase == phase
            model.patch(dict(action.body))
            if phase == "shield":
                model.settle()
        assert isinstance(next_action(RollBack(V2), model.read()), Wait)


def test_the_good_version_named_without_percent_by_someone_else_is_shielded_again() -> None:
    """The naive rollback exposes everyone while the good one boots; seen in time, percent 0 takes them back."""
    model = canary_at(25)
    model.patch(
        {"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": None, "model": {"storageUri": V2}}}}
    )
    for name in ("sync", "kserve", "configuration", "kserve"):
        model.step(name)
    action = next_action(RollBack(V2), model.read())
    assert isinstance(action, Patch)
    assert action.phase == "shield"
    assert isinstance(drive(model, RollBack(V2)), Done)


NAIVE = {
    "the old URI, percent dropped": (25, {"canaryTrafficPercent": None, "model": {"storageUri": V2}}),
    "percent dropped while the bad URI is named": (25, {"canaryTrafficPercent": None}),
    "the old URI while the percent stays": (25, {"canaryTrafficPercent": 100, "model": {"storageUri": V2}}),
}


@pytest.mark.parametrize("name", sorted(NAIVE))
def test_naive_rollbacks_do_the_harm_in_the_model(name: str) -> None:
    """The obvious patches send more users to the bad version than it had; the model shows it, so it can show
    our safety.
    """
    weight, predictor = NAIVE[name]
    model = canary_at(weight)
    before = worst_share(model, V3)
    model.patch({"metadata": {}, "spec": {"predictor": copy.deepcopy(predictor)}})
    assert before == weight
    assert worst_share(model, V3) == 100


def test_a_percent_after_a_full_rollout_revives_the_version_before() -> None:
    """The model has KServe's trap: a percent without a new spec sends users to the previous version."""
    model = live_model()
    model.patch({"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": 10}}})
    model.settle()
    assert model.users() == {V1: 90, V2: 10}


def test_dropping_the_percent_after_a_rollback_promotes_the_bad_version() -> None:
    """With percent 0 the bad revision still is the latest: who drops the percent to tidy up gives it everyone, and
    ours names the good version first.
    """
    naive, ours = canary_at(25), canary_at(25)
    for model in (naive, ours):
        model.patch({"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": 0}}})
        model.settle()
        assert model.users() == {V2: 100}
    naive.patch({"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": None}}})
    assert worst_share(naive, V3) == 100
    assert isinstance(drive(ours, RollBack(V2)), Done)
    assert worst_share(ours, V3) == 0


def test_a_percent_is_ignored_while_nothing_was_rolled_out() -> None:
    """A first version with 10 % gets everyone; ours does not begin a canary before one version was rolled out."""
    naive, ours = KnativeModel(), KnativeModel()
    for model in (naive, ours):
        model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": V1}}}})
    naive.patch(
        {"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": 10, "model": {"storageUri": V2}}}}
    )
    naive.settle()
    assert naive.users() == {V2: 100}
    assert isinstance(next_action(StartCanary(V2, 10), ours.read()), Impossible)


def test_the_same_storage_uri_again_makes_no_revision() -> None:
    """To "restart" the live version with a percent revives the one before it; ours refuses."""
    naive, ours = live_model(), live_model()
    naive.patch(
        {"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": 10, "model": {"storageUri": V2}}}}
    )
    naive.settle()
    assert naive.users() == {V1: 90, V2: 10}
    assert isinstance(next_action(StartCanary(V2, 10), ours.read()), Impossible)


def test_a_patch_of_annotations_alone_makes_a_revision() -> None:
    """A note in a patch of its own brings up new pods of the same version; ours notes only with a new storageUri."""
    naive, ours = canary_at(5), canary_at(5)
    naive.patch({"metadata": {"annotations": {"somebody/note": "x"}}})
    naive.settle()
    assert len(naive.revisions) == 4
    drive(ours, ShiftWeight(50))
    drive(ours, Promote())
    assert len(ours.revisions) == 3


def test_a_late_start_is_refused_once_the_spec_has_changed() -> None:
    """A task that decided on the canary before it was rolled back cannot begin it again; a new decision can."""
    model = live_model()
    decided_at = model.read().generation
    drive(model, StartCanary(V3, 5, generation=decided_at))
    drive(model, RollBack(V2))
    late = next_action(StartCanary(V3, 5, force=True, generation=decided_at), model.read())
    assert isinstance(late, Impossible)
    assert late.kind == "foreign_change"
    again = StartCanary(V3, 5, force=True, generation=model.read().generation)
    assert isinstance(next_action(again, model.read()), Patch)


@pytest.mark.parametrize("own_generation", [True, False])
def test_a_rollback_waits_for_the_canary_that_is_still_to_appear(own_generation: bool) -> None:
    """A revision that was not created yet when the rollback was decided cannot slip in later as the latest one."""
    model = live_model(own_generation=own_generation, annotations_reach_revisions=False)
    start = next_action(StartCanary(V3, 5), model.read())
    assert isinstance(start, Patch)
    model.patch(dict(start.body))
    for name in ("sync", "kserve"):
        model.step(name)
    shield = next_action(RollBack(V2), model.read())
    assert isinstance(shield, Patch)
    model.patch(dict(shield.body))
    for name in ("sync", "kserve", "route", "kserve"):
        model.step(name)
    assert isinstance(next_action(RollBack(V2), model.read()), Wait)
    assert worst_share(model, V3) == 0
    assert isinstance(drive(model, RollBack(V2)), Done)
    assert model.users() == {V2: 100}
