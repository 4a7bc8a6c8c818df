from __future__ import annotations

import pytest

from slipway_core.rollout.dialects.registry import observe
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
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from tests.support.rollout.knative_steps import canary_at, drive

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
