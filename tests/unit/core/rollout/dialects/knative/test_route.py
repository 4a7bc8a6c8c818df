"""Knative's traffic is an intention until its route is ready: what is done, said and waited for until then."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import TimedOutError
from slipway_core.rollout.actions import RESTORE, SHIELD
from slipway_core.rollout.next_action import (
    Done,
    FirstDeploy,
    Goal,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    next_action,
)
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reconciler import GiveUp, Limits, Reconciler, Saw
from slipway_sandbox.lab.simulation.edits import V1, V2, V3
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from tests.support.rollout.knative_steps import canary_at, drive
from tests.support.rollout.reading import observe

STABLE, CANDIDATE = "digits-predictor-00002", "digits-predictor-00003"


def status_with(route: dict[str, Any] | None, *lines: tuple[str, int, bool]) -> Observed:
    """A canary of V3 over V2 at percent 20 whose status has this PredictorRouteReady and these lines of traffic."""
    isvc = canary_at(20).as_object()
    others = [one for one in isvc["status"]["conditions"] if one["type"] != "PredictorRouteReady"]
    told = [] if route is None else [{"type": "PredictorRouteReady", **route}]
    isvc["status"]["conditions"] = [*others, *told]
    if lines:
        isvc["status"]["components"]["predictor"]["traffic"] = [
            {"revisionName": revision, "percent": percent, "latestRevision": latest}
            for revision, percent, latest in lines
        ]
    return observe(isvc)


@pytest.mark.parametrize(
    ("reach", "goal"),
    [
        (live_model, StartCanary(V3, 20)),
        (live_model, ShowCandidate(V3)),
        (lambda: canary_at(20), ShiftWeight(50, V3)),
        (lambda: canary_at(20), Promote(V3)),
    ],
)
def test_nothing_forward_is_done_before_the_ingress_has_taken_it(reach: Any, goal: Goal) -> None:
    """Knative intends the split and says so; the goal waits, names the route's reason, and is reached with it."""
    model = reach()
    model.ingress_is_alive = False
    action = drive(model, goal)
    assert isinstance(action, Wait), action
    assert "PredictorRouteReady is Unknown: IngressNotConfigured" in action.reason
    model.ingress_is_alive = True
    model.settle()
    done = next_action(goal, model.read())
    assert isinstance(done, Done), done
    assert dict(done.traffic) == dict(model.read().traffic)


def test_no_canary_begins_over_a_version_whose_route_is_not_ready() -> None:
    """The patch that starts a canary waits until the stable version is known to have all users."""
    model = live_model()
    model.status_route = "Unknown"
    action = next_action(StartCanary(V3, 5), model.read())
    assert isinstance(action, Wait)
    assert (action.phase, "IngressNotConfigured" in action.reason) == ("settle", True)


def test_a_first_deployment_is_done_once_users_can_reach_it() -> None:
    """Recorded: the first version is rolled out, with all traffic, before the ingress has been reconciled."""
    manifest = {"metadata": {}, "spec": {"predictor": {"model": {"storageUri": V1}}}}
    model = KnativeModel(ingress_is_alive=False)
    model.create(manifest)
    model.settle()
    goal = FirstDeploy(manifest)
    assert model.read().latest_rolledout
    action = next_action(goal, model.read())
    assert isinstance(action, Wait)
    assert "IngressNotConfigured" in action.reason
    model.ingress_is_alive = True
    model.settle()
    assert isinstance(next_action(goal, model.read()), Done)


def test_a_rollback_with_a_dead_ingress_patches_0_at_once_and_goes_no_further() -> None:
    """Percent 0 waits for nothing; the good version is not named before users were seen to be off the bad one."""
    model = canary_at(20)
    model.ingress_is_alive = False
    shield = next_action(RollBack(V2, V3), model.read())
    assert isinstance(shield, Patch)
    assert shield.phase == SHIELD
    action = drive(model, RollBack(V2, V3))
    assert isinstance(action, Wait)
    assert (action.phase, action.users_safe) == (SHIELD, False)
    assert f"Knative intends 0 % to {CANDIDATE}, 100 % to {STABLE}" in action.reason
    assert "its route is not ready: PredictorRouteReady is Unknown: IngressNotConfigured" in action.reason
    assert not model.read().is_shielded_from(V3)
    assert (model.share(V3), model.read().storage_uri) == (20, V3)
    model.ingress_is_alive = True
    model.settle()
    restore = next_action(RollBack(V2, V3), model.read())
    assert isinstance(restore, Patch)
    assert restore.phase == RESTORE
    assert isinstance(drive(model, RollBack(V2, V3)), Done)


def test_a_rollback_from_a_weight_that_never_reached_the_router_patches_0_at_once() -> None:
    """Whatever the route does, the spec never keeps a weight that a rollback has found."""
    model = live_model()
    model.ingress_is_alive = False
    drive(model, StartCanary(V3, 50))
    action = next_action(RollBack(V2, V3), model.read())
    assert isinstance(action, Patch)
    assert action.body["spec"] == {"predictor": {"canaryTrafficPercent": 0}}


def test_a_return_is_done_only_when_the_good_version_was_seen_to_have_everyone() -> None:
    """An ingress that dies while the good version boots leaves users where they are, and the rollback unfinished."""
    model = canary_at(20)
    while model.read().storage_uri == V3:
        action = next_action(RollBack(V2, V3), model.read())
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        else:
            model.settle(rounds=1)
    model.ingress_is_alive = False
    action = drive(model, RollBack(V2, V3))
    assert isinstance(action, Wait)
    assert "IngressNotConfigured" in action.reason
    assert model.users() == {V2: 100}


def test_a_timeout_names_what_the_route_waits_for() -> None:
    """Who reads the error learns that it is the ingress."""
    model = canary_at(20)
    model.ingress_is_alive = False
    drive(model, RollBack(V2, V3))
    reconciler = Reconciler(RollBack(V2, V3), Limits(timeout_s=60), name="models/digits", began_s=0)
    step = reconciler.next(Saw(model.read()), 61)
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, TimedOutError)
    assert "IngressNotConfigured" in str(step.error)


@pytest.mark.parametrize(
    "route",
    [
        {"status": "Unknown", "reason": "OutOfDate"},
        {"status": "Unknown", "reason": "TrafficNotMigrated"},
        {
            "status": "Unknown",
            "reason": "IngressNotConfigured",
            "message": "Ingress has not yet been reconciled.",
        },
        {"status": "False", "reason": "RevisionMissing"},
        {"status": True},
        {},
    ],
)
def test_only_a_route_that_is_ready_proves_anything(route: dict[str, Any]) -> None:
    """Every other status of PredictorRouteReady, as recorded or malformed, leaves the traffic an intention."""
    observed = status_with(route)
    assert observed.traffic == {CANDIDATE: 20, STABLE: 80}
    assert not observed.traffic_current
    assert not observed.is_split({CANDIDATE: 20, STABLE: 80})
    assert str(route.get("reason", "")) in observed.traffic_doubt


def test_a_route_that_is_ready_with_older_traffic_proves_nothing_of_the_spec() -> None:
    """Recorded at a raise to 50 %: KServe told once more, with True, of the 20 % from before."""
    older = status_with({"status": "True"}, (CANDIDATE, 5, True), (STABLE, 95, False))
    assert not older.traffic_current
    assert "older than the spec, which names 20 %" in older.traffic_doubt
    assert status_with({"status": "True"}).traffic_current


def test_a_candidate_that_does_not_come_up_leaves_the_route_ready() -> None:
    """Recorded: both targets name the stable revision, with the route ready and the configuration Unknown."""
    model = live_model(unloadable=frozenset({V3}))
    drive(model, StartCanary(V3, 20))
    observed = model.read()
    assert (observed.traffic_current, observed.ready) == (True, False)
    assert observed.alone(STABLE)
    assert isinstance(drive(model, RollBack(V2, V3)), Done)


def test_a_status_that_never_tells_of_the_route_keeps_no_rollback_from_its_patches() -> None:
    """All phases are patched by the intended traffic; nobody is told that users are safe, and it is never done."""
    model, phases = canary_at(20), []
    for _ in range(30):
        isvc = model.as_object()
        told = isvc["status"]["conditions"]
        isvc["status"]["conditions"] = [one for one in told if one["type"] != "PredictorRouteReady"]
        observed = observe(isvc, behind=model.knative_service(), revisions=model.revision_objects())
        action = next_action(RollBack(V2, V3), observed)
        assert not isinstance(action, Done)
        assert not (isinstance(action, Wait) and action.users_safe)
        if isinstance(action, Patch):
            phases.append(action.phase)
            model.patch(dict(action.body))
        model.settle(rounds=3)
    assert phases == ["shield", "restore", "release"]
    assert model.users() == {V2: 100}
    assert "no condition PredictorRouteReady" in action.reason


def test_the_good_uri_in_the_spec_shields_nobody_from_a_bad_revision_with_users() -> None:
    """Somebody names the good version and drops the percent: until it answers, everyone is on the bad one."""
    model = canary_at(20)
    model.patch(
        {"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": None, "model": {"storageUri": V2}}}}
    )
    for step in ("sync", "kserve", "configuration", "route", "ingress", "kserve"):
        model.step(step)
    assert model.users() == {V3: 100}
    assert not model.read().is_shielded_from(V3)


def test_good_traffic_of_a_moment_after_a_promotion_makes_nobody_safe() -> None:
    """KServe still has the bad version as the one rolled out: it leads everyone there again, and then sets it right."""
    model = canary_at(20)
    promotion, shield = next_action(Promote(V3), model.read()), RollBack(V2, V3)
    assert isinstance(promotion, Patch)
    model.patch(dict(promotion.body))
    for step in ("sync", "kserve", "route", "ingress"):
        model.step(step)
    action = next_action(shield, model.read())
    assert isinstance(action, Patch)
    model.patch(dict(action.body))
    for step in ("sync", "kserve", "route", "ingress", "kserve"):
        model.step(step)
    observed = model.read()
    assert (observed.traffic, observed.traffic_current) == ({CANDIDATE: 0, STABLE: 100}, True)
    assert observed.latest_rolledout == CANDIDATE
    waits = next_action(shield, observed)
    assert isinstance(waits, Wait), waits
    assert not waits.users_safe
    assert not observed.is_shielded_from(V3)
    assert isinstance(drive(model, shield), Done)


def test_a_status_from_before_the_canary_does_not_make_its_users_safe() -> None:
    """The route leads users to the candidate already, while the status still has the route of before, ready."""
    model = live_model()
    for goal in (StartCanary(V3, 5), RollBack(V2, V3)):
        action = next_action(goal, model.read())
        assert isinstance(action, Patch)
        model.patch(dict(action.body))
        if isinstance(goal, StartCanary):
            for step in ("sync", "kserve", "configuration", "ready", "route", "ingress"):
                model.step(step)
    observed = model.read()
    assert (model.share(V3), observed.canary_percent, observed.traffic) == (5, 0, {STABLE: 100})
    action = next_action(RollBack(V2, V3), observed)
    assert isinstance(action, Wait)
    assert not action.users_safe
    assert not observed.is_shielded_from(V3)
