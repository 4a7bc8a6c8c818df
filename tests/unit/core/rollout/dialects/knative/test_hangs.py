"""KServe's Knative mode: a rollback reaches users though KServe hangs, by the traffic of the Knative Service."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.actions import FALLBACK_AFTER_S, PatchMade
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
    Reached,
    Reconciler,
    Saw,
)
from slipway_sandbox.lab.simulation.edits import V2, V3
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.rollout.knative_steps import canary_at, drive
from tests.support.rollout.reading import observe
from tests.support.rollout.standard_steps import Carried

BACK = RollBack(V2, V3)
HANGING = ClusterUnavailableError(
    "patching the InferenceService models/digits failed",
    found="HTTP 500 failed calling webhook: context deadline exceeded",
)
STABLE, CANDIDATE = "digits-predictor-00002", "digits-predictor-00003"


def knative_acts(model: KnativeModel) -> None:
    """Let Knative alone go on, while KServe hangs."""
    model.step("route")
    model.step("ingress")


def kserve_acts(model: KnativeModel) -> None:
    """Let KServe do what it last saw in the InferenceService."""
    model.step("sync")
    model.step("kserve")


def fallback_of(model: KnativeModel, behind: dict[str, Any] | None) -> Any:
    """Return what a rollback does where it cannot patch the InferenceService."""
    action = next_action(BACK, observe(model.as_object(), behind=behind))
    assert isinstance(action, Patch | Wait)
    return action.fallback


def test_users_are_taken_off_though_the_service_cannot_be_patched() -> None:
    """The Knative Service is written once, by Knative alone users are led back; the spec follows when it can."""
    model = canary_at(50)
    back = Carried(model, BACK, hanging=HANGING)
    back.run(seconds=3, rounds=0)
    assert [type(one) for one in back.acts] == [Patch, PatchMade, Patch, Patch]
    knative_acts(model)
    assert model.users() == {V2: 100}
    assert model.read().canary_percent == 50
    back.hanging = None
    assert isinstance(back.run(), Reached)
    assert model.users() == {V2: 100}


def test_kserve_writes_the_old_percent_once_more_and_the_rollback_goes_on() -> None:
    """Back before the spec has taken percent 0, it leads users to the candidate again, until it has."""
    model = canary_at(50)
    back = Carried(model, BACK, hanging=HANGING)
    back.run(seconds=3, rounds=0)
    knative_acts(model)
    kserve_acts(model)
    knative_acts(model)
    assert model.users() == {V2: 50, V3: 50}
    back.run(seconds=3, rounds=0)
    knative_acts(model)
    assert model.users() == {V2: 100}
    back.hanging = None
    assert isinstance(back.run(), Reached)
    assert model.users() == {V2: 100}


def test_users_are_taken_off_though_kserve_hangs_after_it_took_percent_0() -> None:
    """The spec says 0 %, nobody carries it on: three seconds later the Knative Service is written."""
    model = canary_at(50)
    back = Carried(model, BACK)
    back.run(seconds=3, rounds=0)
    assert [type(one) for one in back.acts] == [Patch]
    back.run(seconds=6, rounds=0)
    assert [type(one) for one in back.acts] == [Patch, PatchMade]
    knative_acts(model)
    assert model.users() == {V2: 100}
    assert isinstance(back.run(), Reached)


def test_nobody_is_said_to_be_safe_by_our_own_write() -> None:
    """KServe may write the old percent once more, so only what it says itself counts."""
    model = canary_at(50)
    Carried(model, BACK, hanging=HANGING).run(seconds=3, rounds=0)
    knative_acts(model)
    assert not model.read().is_shielded_from(V3)


def test_a_promoted_version_loses_its_users_too() -> None:
    """KServe hangs after the promotion: everyone is led to the revision that was rolled out before."""
    model = canary_at(99)
    drive(model, Promote(V3))
    assert model.users() == {V3: 100}
    back = Carried(model, BACK, hanging=HANGING)
    back.run(seconds=3, rounds=0)
    knative_acts(model)
    assert model.users() == {V2: 100}


def test_only_the_two_shares_change() -> None:
    """Tags stay, and so does the share of a revision that is neither of the two."""
    model = canary_at(50)
    behind = model.knative_service()
    behind["spec"]["traffic"] = [
        {"latestRevision": True, "percent": 30, "tag": "latest"},
        {"revisionName": STABLE, "latestRevision": False, "percent": 60, "tag": "prev"},
        {"revisionName": "somebody-s", "latestRevision": False, "percent": 10, "tag": "theirs"},
    ]
    assert fallback_of(model, behind).patches[0].body == {
        "metadata": {"resourceVersion": behind["metadata"]["resourceVersion"]},
        "spec": {
            "traffic": [
                {"latestRevision": True, "percent": 0, "tag": "latest"},
                {"revisionName": STABLE, "latestRevision": False, "percent": 90, "tag": "prev"},
                {"revisionName": "somebody-s", "latestRevision": False, "percent": 10, "tag": "theirs"},
            ]
        },
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"ownerReferences": []}},
        {"metadata": {"ownerReferences": [{"kind": "InferenceService", "name": "digits", "uid": "another"}]}},
        {"spec": {}},
        {"spec": {"traffic": "all of it"}},
        {"spec": {"traffic": [7]}},
    ],
    ids=["nobody's", "another's", "no traffic", "no list", "no targets"],
)
def test_what_is_not_kserves_or_cannot_be_read_is_left_alone(changed: dict[str, Any]) -> None:
    """A Knative Service of the same name may be somebody's; and a list is replaced whole."""
    model = canary_at(50)
    found = model.knative_service()
    assert fallback_of(model, {**found, **changed}) is None
    assert fallback_of(model, None) is None
    assert fallback_of(model, found) is not None


@pytest.mark.parametrize("goal", [ShiftWeight(60, V3), StartCanary(V3, 60), Promote(V3)])
def test_no_step_forward_writes_traffic(goal: Any) -> None:
    """Whatever keeps the InferenceService from being patched."""
    model = canary_at(50)
    forward = Carried(model, goal, hanging=HANGING)
    forward.run(seconds=10, rounds=0)
    assert {type(one) for one in forward.acts} == {Patch}


def test_webhooks_that_hang_are_not_waited_for_at_first() -> None:
    """After three seconds the fallback is written; then the patch has all its time, and its error counts."""
    model = canary_at(50)
    reconciler = Reconciler(BACK, Limits(outage_s=0.0), name="models/digits", began_s=0.0)
    first = reconciler.next(Saw(model.read()), 0.0)
    assert isinstance(first, Act)
    assert first.limit_s == FALLBACK_AFTER_S
    assert reconciler.next(Failed(HANGING), 3.1) == Observe(behind=True)
    away = reconciler.next(Saw(model.read()), 3.1)
    assert isinstance(away, Act)
    assert isinstance(away.action, PatchMade)
    assert away.limit_s is None
    model.patch_made(away.action)
    assert reconciler.next(Acted(True), 3.2) == Observe(behind=True)
    again = reconciler.next(Saw(model.read()), 3.2)
    assert isinstance(again, Act)
    assert isinstance(again.action, Patch)
    assert again.limit_s is None
    # KServe may have been back for a moment, and have written the old percent.
    assert reconciler.next(Failed(HANGING), 13.2) == Observe(behind=True)
    step = reconciler.next(Saw(model.read()), 13.2)
    assert isinstance(step, GiveUp)
    assert step.error is HANGING


def test_a_fallback_that_is_not_allowed_leaves_the_patch_all_its_time() -> None:
    """Without the right to write Knative Services a webhook that is slow, and no more, is still waited for."""
    model = canary_at(50)
    forbidden = ClusterUnavailableError("patching the Knative Service failed", found="HTTP 403 Forbidden")
    reconciler = Reconciler(BACK, Limits(outage_s=0.0), name="models/digits", began_s=0.0)
    reconciler.next(Saw(model.read()), 0.0)
    reconciler.next(Failed(HANGING), 3.1)
    reconciler.next(Saw(model.read()), 3.1)
    assert reconciler.next(Failed(forbidden), 3.2) == Observe(behind=True)
    again = reconciler.next(Saw(model.read()), 3.2)
    assert isinstance(again, Act)
    assert isinstance(again.action, Patch)
    assert again.limit_s is None
