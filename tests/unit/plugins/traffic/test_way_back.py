"""The order of one rollback: no new request, what is open, the candidate's end; and which revision is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slipway.traffic.way_back import WayBack
from slipway_core.rollout.next_action import Done, Patch, RollBack, Withdraw, next_action
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reconciler import Reconciliation
from slipway_sandbox.lab.simulation.cluster_model import ClusterModel
from slipway_sandbox.lab.simulation.edits import V2, V3
from tests.support.rollout import knative_steps, standard_steps

GOAL = RollBack(V2, V3)


class Driven:
    """An InferenceService that is driven, a drain that begins and ends at once, and the order of what happens."""

    def __init__(self, model: Any, drive_on: Callable[[Any, Any], Any]) -> None:
        self.model: ClusterModel = model
        self._drive = drive_on
        self.order: list[str] = []
        self.way = WayBack(
            self.reach,
            self,  # type: ignore[arg-type]
            V3,
            on_progress=lambda now: None,
            before_removal=lambda revision: self.order.append(f"remove {revision}"),
        )

    def reach(
        self, goal: Any, *, on_progress: Any, observed: Observed | None = None, suffices: Any = None
    ) -> Reconciliation:
        """Do one thing after the other until it suffices, or is done."""
        for _ in range(60):
            seen = self.model.read()
            last = Reconciliation(seen, next_action(goal, seen))
            if isinstance(last.action, Done) or (suffices is not None and suffices(last)):
                on_progress(last)
                return last
            if isinstance(last.action, Patch):
                self.model.patch(dict(last.action.body))
            on_progress(last)
            self.model.settle(rounds=1)
        raise AssertionError("it was not reached")

    def begin(self, revision: str, weight_0_at: datetime) -> None:
        """Weight 0 was seen."""
        self.order.append(f"drain {revision}")

    def wait_until_removable(self) -> None:
        """The candidate is still there."""
        assert self.model.share(V3) == 0
        self.order.append("waited")

    def end(self) -> None:
        """Nobody asks."""


def test_in_standard_mode_the_candidate_is_drained_before_it_is_removed() -> None:
    """Its pods go with the canary, so that stays in the spec until the drain lets it go."""
    model = standard_steps.canary_at(50)
    driven = Driven(model, standard_steps.drive)
    driven.way.go(GOAL, model.read())
    candidate = standard_steps.CANDIDATE
    assert driven.order == [f"drain {candidate}", "waited", f"remove {candidate}"]
    assert "canary" not in model.spec or not model.spec["canary"]


def test_in_knative_mode_the_good_version_comes_back_meanwhile() -> None:
    """Nothing of the rollback waits for what is open on the candidate."""
    model = knative_steps.canary_at(50)
    candidate = model.read().latest_created
    driven = Driven(model, knative_steps.drive)
    driven.way.go(GOAL, model.read())
    assert driven.order == [f"drain {candidate}"]
    assert model.users() == {V2: 100}


def test_a_withdrawn_version_is_not_drained() -> None:
    """Its pods go with the InferenceService."""
    model = knative_steps.canary_at(50)
    driven = Driven(model, knative_steps.drive)
    driven.reach = lambda *args, **others: Reconciliation(None, object())  # type: ignore[method-assign,arg-type,assignment]
    driven.way._reach = driven.reach
    driven.way.go(Withdraw(V3), model.read())
    assert driven.order == []


@pytest.mark.parametrize("weight", [1, 50, 99])
def test_the_stable_revision_is_never_taken_for_the_candidate(weight: int) -> None:
    """Before Knative has made the candidate's revision the newest one is the stable one: its streams are not ended."""
    model = knative_steps.canary_at(weight)
    seen = model.read()
    stable = seen.annotation("slipway.dev/stable-revision")
    driven = Driven(model, knative_steps.drive)
    driven.way._look_at(replace(seen, latest_created=stable))
    assert driven.way.candidate is None
    driven.way._look_at(seen)
    assert driven.way.candidate == seen.latest_created
