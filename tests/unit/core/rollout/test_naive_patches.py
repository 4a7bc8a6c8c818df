"""What the obvious patches do to the users in the model of KServe's Knative mode, and ours do not."""

from __future__ import annotations

import copy

import pytest

from slipway_core.rollout.next_action import (
    Done,
    Impossible,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    next_action,
)
from slipway_sandbox.lab.simulation.cluster_model import worst_share
from slipway_sandbox.lab.simulation.edits import V1, V2, V3
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from tests.support.rollout.knative_steps import canary_at, drive

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
