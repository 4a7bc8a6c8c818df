"""KServe's Standard mode: a rollback reaches users though KServe leaves its routes as they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.next_action import (
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    next_action,
)
from slipway_core.rollout.reconciler import (
    Act,
    Acted,
    Failed,
    GiveUp,
    Limits,
    Observe,
    Pause,
    Reached,
    Reconciler,
    Saw,
    Waited,
)
from slipway_sandbox.lab.simulation.edits import V2, V3
from slipway_sandbox.lab.simulation.standard_model import StandardModel
from tests.support.rollout.reading import observe
from tests.support.rollout.standard_steps import CANDIDATE, STABLE, Carried, canary_at, drive, patched

BACK = RollBack(V2, V3)
FORBIDDEN = ClusterUnavailableError(
    "patching the HTTPRoute models/digits failed", found="HTTP 403 Forbidden", remedy="check the rights"
)


def frozen(weight: int = 50, missing: int = 2, **settings: Any) -> StandardModel:
    """A canary over three stable pods of which so many crash, so that KServe leaves the routes as they are."""
    model = canary_at(weight, replicas=3, **settings)
    model.lose(STABLE, missing)
    model.settle()
    assert not model.state.is_ready
    return model


def test_one_crashing_pod_of_three_does_not_freeze_the_routes() -> None:
    """With Kubernetes' own maxUnavailable it does: the weight stays at 50 %. With slipway's percent 0 reaches users."""
    model = canary_at(50, replicas=3)
    model.lose(STABLE, 1)
    assert isinstance(Carried(model, BACK).run(), Reached)
    assert model.users() == {V2: 100}
    theirs = {"rollingUpdate": {"maxUnavailable": "25%"}}
    frozen(50, missing=1, predictor={"deploymentStrategy": theirs})


def test_users_are_taken_off_the_candidate_by_our_own_write() -> None:
    """Percent 0 is in the spec at once; after three seconds without effect the weights are written, and once only. When
    the canary is gone its backend is taken out of the routes likewise.
    """
    model = frozen()
    back = Carried(model, BACK)
    back.run(seconds=3)
    assert [type(one) for one in back.acts] == [Patch]
    assert model.users() == {V2: 50, V3: 50}
    assert isinstance(back.run(), Reached)
    assert model.users() == {V2: 100}
    assert [type(one) for one in back.acts] == [Patch, PatchMade, Patch, PatchMade]
    assert "canary" not in model.spec


def test_kserve_takes_the_routes_over_again() -> None:
    """What was written is what KServe writes when stable's pods are back: there is nothing to hand back."""
    model = frozen()
    patched(model, BACK)
    waiting = next_action(BACK, model.read())
    assert isinstance(waiting, Wait)
    assert waiting.fallback is not None
    model.patch_made(waiting.fallback)
    written = model.state.routed
    model.lose(STABLE, 0)
    model.settle(rounds=6)
    assert model.state.is_ready
    assert model.state.routed == written
    assert isinstance(Carried(model, BACK).run(), Reached)
    assert [one.weight for one in model.state.routed] == [None]


def test_only_the_two_weights_change_and_only_in_kserves_own_routes() -> None:
    """All else of a rule is given back as it was read; a route that KServe did not make for this service is left."""
    model = frozen(20)
    patched(model, BACK)
    routes = model.routes()
    strange = copy.deepcopy(routes)
    for route in strange:
        route["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert not_written(model, strange)
    waiting = next_action(BACK, observe(model.as_object(), routes))
    assert isinstance(waiting, Wait)
    assert waiting.fallback is not None
    assert [one.name for one in waiting.fallback.patches] == ["digits-predictor", "digits"]
    for route, patch in zip(routes, waiting.fallback.patches, strict=True):
        expected = copy.deepcopy(route["spec"]["rules"])
        stable, candidate = expected[0]["backendRefs"]
        assert (stable["name"], candidate["name"]) == (STABLE, CANDIDATE)
        stable["weight"], candidate["weight"] = 100, 0
        assert patch.body == {
            "metadata": {"resourceVersion": route["metadata"]["resourceVersion"]},
            "spec": {"rules": expected},
        }


def not_written(model: StandardModel, routes: list[dict[str, Any]]) -> bool:
    """Whether a rollback that is waiting would leave these routes as they are."""
    waiting = next_action(BACK, observe(model.as_object(), routes))
    assert isinstance(waiting, Wait)
    return waiting.fallback is None


def test_a_write_that_is_not_allowed_is_said_once_and_waited_on() -> None:
    """403: the reason of the wait says so, the same each time, and users are safe as soon as KServe writes again."""
    model = frozen()
    back = Carried(model, BACK, refused=FORBIDDEN)
    back.run(seconds=20)
    assert model.users() == {V2: 50, V3: 50}
    told = [one for one in dict.fromkeys(back.waits) if "403" in one]
    assert len(told) == 1
    assert told[0].startswith("Percent 0 is set")
    model.lose(STABLE, 0)
    assert isinstance(back.run(), Reached)
    assert model.users() == {V2: 100}


def test_a_conflict_is_followed_by_a_new_observation() -> None:
    """A route that was written meanwhile is read again, and written at once."""
    model = frozen()
    patched(model, BACK)
    back = Carried(model, BACK)
    real, refused = model.patch_made, []

    def once_refused(action: PatchMade) -> None:
        if not refused:
            refused.append(action)
            model.route_generation += 1
        real(action)

    model.patch_made = once_refused  # type: ignore[method-assign]
    back.run(seconds=6)
    assert [type(one) for one in back.acts][:2] == [PatchMade, PatchMade]
    assert model.share(V3) == 0


HANGING = ClusterUnavailableError(
    "patching the InferenceService models/digits failed",
    found="HTTP 500 failed calling webhook: context deadline exceeded",
)


def test_users_are_taken_off_though_the_service_cannot_be_patched() -> None:
    """KServe hangs, and the API asks its webhooks: the routes are written at once, the spec as soon as it can be."""
    model = canary_at(50, replicas=3)
    back = Carried(model, BACK, hanging=HANGING)
    back.run(seconds=5, rounds=0)
    assert [type(one) for one in back.acts] == [Patch, PatchMade, Patch, Patch, Patch, Patch]
    model.step("gateway")
    assert model.users() == {V2: 100}
    assert model.read().canary_percent == 50
    back.hanging = None
    assert isinstance(back.run(), Reached)
    assert model.users() == {V2: 100}
    assert "canary" not in model.spec


@pytest.mark.parametrize("came_of_it", [Acted(True), Failed(FORBIDDEN)])
def test_the_error_of_the_patch_counts_whatever_came_of_the_routes(came_of_it: Acted | Failed) -> None:
    """Who bears no outage gives up with the patch's own error, after the routes were tried on a new observation."""
    model = canary_at(50, replicas=3)
    reconciler = Reconciler(BACK, Limits(outage_s=0.0), name="models/digits", began_s=0.0)
    first = reconciler.next(Saw(model.read()), 0.0)
    assert isinstance(first, Act)
    assert isinstance(first.action, Patch)
    assert reconciler.next(Failed(HANGING), 1.0) == Observe(behind=True)
    again = reconciler.next(Saw(model.read()), 1.0)
    assert again == Act(first.action.fallback)  # type: ignore[arg-type]
    # A conflict is no loop without a pause.
    assert isinstance(reconciler.next(Acted(False), 1.0), Pause)
    assert reconciler.next(Waited(), 1.0) == Observe(behind=True)
    assert reconciler.next(Saw(model.read()), 1.0) == again
    step = reconciler.next(came_of_it, 2.0)
    assert isinstance(step, GiveUp)
    assert step.error is HANGING


def test_a_rollback_that_was_decided_elsewhere_meanwhile_writes_no_routes() -> None:
    """What is observed after the error counts: where the spec has taken percent 0 there is nothing to write."""
    model = canary_at(50, replicas=3)
    reconciler = Reconciler(BACK, Limits(outage_s=60.0), name="models/digits", began_s=0.0)
    reconciler.next(Saw(model.read()), 0.0)
    reconciler.next(Failed(HANGING), 1.0)
    patched(model, BACK)
    assert isinstance(reconciler.next(Saw(model.read()), 1.0), Pause)


@pytest.mark.parametrize("goal", [StartCanary(V3, 60), ShiftWeight(60, V3), Promote(V3)])
def test_no_step_forward_writes_routes(goal: Any) -> None:
    """However long KServe leaves them as they are."""
    model = frozen()
    forward = Carried(model, goal)
    forward.run()
    assert all(isinstance(one, Patch) for one in forward.acts)
    assert model.users() == {V2: 50, V3: 50}


def test_the_good_version_gets_everyone_though_the_bad_ones_pods_crash() -> None:
    """Promoted, its pods crash, KServe leaves the routes there: the good one comes back, and slipway leads to it."""
    model = canary_at(99, replicas=3)
    drive(model, Promote(V3))
    model.lose(CANDIDATE, 3)
    model.settle()
    assert model.users() == {"": 100}
    back = Carried(model, BACK)
    assert isinstance(back.run(), Reached)
    assert model.users() == {V2: 100}
    (write,) = [one for one in back.acts if isinstance(one, PatchMade)]
    assert write.phase == "release"
    assert model.spec["predictor"]["minReplicas"] == 3


def test_routes_do_not_lead_to_a_good_version_without_its_pods() -> None:
    """It comes back with two of three pods: nobody is led there by anybody, and the wait says what is missing."""
    model = canary_at(99, replicas=3)
    drive(model, Promote(V3))
    model.lose(CANDIDATE, 2)
    back = Carried(model, BACK)
    back.run(seconds=2)
    good = next(one.name for one in model.state.workloads if one.name not in (STABLE, CANDIDATE))
    model.lose(good, 1)
    back.run(seconds=30)
    assert not any(isinstance(one, PatchMade) for one in back.acts)
    assert "2 of the 3 pods" in back.waits[-1]
