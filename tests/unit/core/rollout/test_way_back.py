"""A rollback in KServe's Knative mode: percent 0 first, then the good version, then no percent."""

from __future__ import annotations

import pytest

from slipway_core.rollout.next_action import (
    Done,
    Patch,
    Promote,
    RollBack,
    StartCanary,
    Wait,
    next_action,
)
from slipway_sandbox.lab.simulation.cluster_model import worst_share
from slipway_sandbox.lab.simulation.edits import V1, V2, V3
from slipway_sandbox.lab.simulation.knative_model import STEPS, live_model
from tests.support.rollout.knative_steps import canary_at, drive

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
        for name in ("sync", "kserve", "configuration", "route", "ingress"):
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
    replaced, and nobody is told that users are safe.
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
    assert not action.users_safe
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
