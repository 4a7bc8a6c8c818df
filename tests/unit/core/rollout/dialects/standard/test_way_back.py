"""KServe's Standard mode: a rollback shields the users first, and removes when nobody is led there."""

from __future__ import annotations

import pytest

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
from slipway_sandbox.lab.simulation.edits import V2, V3
from slipway_sandbox.lab.simulation.standard_model import STEPS, standard_live
from tests.support.rollout.standard_steps import START, canary_at, drive, failing, given_users, naive, patched

# --- the way back ---


def test_a_rollback_shields_first_and_removes_when_nobody_is_led_there() -> None:
    """The obvious patch removes the canary at once and fails those who are led there; ours takes two patches."""
    model = canary_at(50)
    assert failing(naive(model, {"canary": None})) == 50
    assert patched(model, RollBack(V2, V3)).phase == "shield"
    waiting = next_action(RollBack(V2, V3), model.read())
    assert isinstance(waiting, Wait)
    assert not waiting.users_safe
    model.settle()
    assert model.users() == {V2: 100}
    assert patched(model, RollBack(V2, V3)).phase == "restore"
    assert failing(model) == 0
    model.settle()
    assert isinstance(next_action(RollBack(V2, V3), model.read()), Done)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    assert model.spec == {"predictor": {**standard_live().spec["predictor"], "deploymentStrategy": rolling}}


def test_a_reconciliation_that_has_read_the_old_percent_is_waited_for() -> None:
    """The route shows stable alone, and a reconciliation under way may yet write the old percent: not removed yet."""
    model = canary_at(20)
    patched(model, ShiftWeight(50))
    for name in ("sync", "reconcile"):
        model.step(name)
    patched(model, RollBack(V2, V3))
    action = next_action(RollBack(V2, V3), model.read())
    assert isinstance(action, Wait)
    model.settle()
    patched(model, RollBack(V2, V3))
    assert failing(model) == 0


def test_the_percent_that_every_canary_begins_with_proves_nothing() -> None:
    """A reconciliation has read the first weight, and the status tells of 0 still: removed only after a while."""
    model = standard_live()
    patched(model, START)
    model.settle()
    patched(model, START)
    for name in ("sync", "reconcile"):
        model.step(name)
    patched(model, RollBack(V2, V3))
    action = next_action(RollBack(V2, V3), model.read())
    assert isinstance(action, Wait)
    assert action.users_safe
    model.settle()
    assert isinstance(next_action(RollBack(V2, V3), model.read()), Wait)
    patched(model, RollBack(V2, V3, unnoted_may_go=True))
    assert failing(model) == 0


def test_a_canary_without_users_is_removed_at_once() -> None:
    """One that has not got its first percent yet never had any: nothing is waited for, and no duplicate raises it."""
    model = standard_live()
    generation = model.generation
    patched(model, START)
    assert patched(model, RollBack(V2, V3)).phase == "restore"
    assert failing(model) == 0
    late = StartCanary(V3, 20, generation=generation)
    assert isinstance(next_action(late, model.read()), Impossible)


def test_a_canary_that_the_controller_never_took_note_of_is_removed() -> None:
    """Where KServe cannot finish a reconciliation with the canary only its removal helps, once it was waited for."""
    model = standard_live()
    patched(model, START)
    given_users(model, 20)
    assert patched(model, RollBack(V2, V3)).phase == "shield"
    waiting = next_action(RollBack(V2, V3), model.read())
    assert isinstance(waiting, Wait)
    assert waiting.users_safe
    assert patched(model, RollBack(V2, V3, unnoted_may_go=True)).phase == "restore"
    assert isinstance(drive(model, RollBack(V2, V3)), Done)


def test_a_candidate_that_never_came_up_gets_nobody_and_is_rolled_back() -> None:
    """Only ready canaries have a place in the route."""
    model = standard_live(unloadable=frozenset({V3}))
    assert isinstance(drive(model, START), Wait)
    assert model.users() == {V2: 100}
    assert isinstance(drive(model, RollBack(V2, V3)), Done)
    assert model.users() == {V2: 100}


def test_a_promotion_half_done_is_rolled_back_to_the_warm_stable() -> None:
    """At percent 100 the old version's pods are still there, and one patch takes everyone back."""
    model = canary_at(99)
    patched(model, Promote())
    model.settle()
    assert model.users() == {V3: 100}
    assert patched(model, RollBack(V2, V3)).phase == "shield"
    model.settle()
    assert model.users() == {V2: 100}


def test_a_promoted_version_is_rolled_back_when_the_good_one_answers() -> None:
    """The good version comes up as a canary without traffic, takes everyone, and becomes the stable one."""
    model = canary_at(20)
    drive(model, Promote())
    phases = []
    for index in range(80):
        action = next_action(RollBack(V2, V3), model.read())
        phases += [action.phase] if action.phase not in phases else []
        if isinstance(action, Done):
            break
        if isinstance(action, Patch):
            model.patch(dict(action.body))
            assert failing(model) == 0
        model.step(STEPS[index % len(STEPS)])
    assert phases == ["restore", "boot", "release", "done"]
    assert model.users() == {V2: 100}
    assert model.read().annotation("slipway.dev/release") == "rollback"


def test_a_half_done_rollback_says_where_it_leads() -> None:
    """Whoever finds the good version coming up over the bad one reads in it what it goes back to."""
    model = canary_at(20)
    drive(model, Promote())
    patched(model, RollBack(V2, V3))
    model.settle()
    observed = model.read()
    assert observed.canary_percent == 0
    assert observed.stable_uri == V2
    assert isinstance(drive(model, RollBack(observed.stable_uri)), Done)
    assert model.users() == {V2: 100}


@pytest.mark.parametrize("goal", [START, ShiftWeight(50), ShiftWeight(50, V3), Promote(), Promote(V3)])
def test_nothing_goes_forward_once_a_rollback_was_decided(goal: Goal) -> None:
    """A duplicate task of the release meets percent 0, or no canary, and must not raise the share again."""
    model = canary_at(20)
    late = StartCanary(V3, 20, generation=model.generation) if goal is START else goal
    while not isinstance(action := next_action(RollBack(V2, V3), model.read()), Done):
        if isinstance(action, Patch):
            model.patch(dict(action.body))
            assert isinstance(next_action(late, model.read()), Impossible)
        model.settle(rounds=1)
    assert isinstance(next_action(late, model.read()), Impossible)


def test_a_rollback_without_a_canary_is_done_at_once() -> None:
    """Where the start patch never landed, the good version is live alone, and nothing is patched."""
    assert isinstance(next_action(RollBack(V2, V3), standard_live().read()), Done)
