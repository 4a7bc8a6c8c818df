"""Random walks of releases in Knative mode: whatever comes after whatever, users get what was asked for and no more."""

from __future__ import annotations

import random
import time

import pytest

from slipway_core.errors import CanaryRefusedError, UserError
from slipway_core.rollout.next_action import (
    Done,
    FirstDeploy,
    Goal,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
)
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.rollouts import NAME, Rollouts
from tests.support.conformance.users import UsersWay

TURNS = 8
WEIGHTS = (1, 5, 20, 50, 80, 99)
WHOLE = 100
CRASHES_ONE_IN = 4


class Walk:
    """One InferenceService, what was asked of it, and what users may get for that."""

    def __init__(self, knative: Rollouts, seed: int) -> None:
        self._knative = knative
        self._choice = random.Random(seed)
        self._newest = 1
        self._stable = self._uri(1)
        self._candidate, self._weight = "", 0
        self.turns: list[str] = []
        knative.cluster.gateway.of(knative.namespace).lag_s = self._choice.choice((0.0, 0.5))

    def begin(self) -> UsersWay:
        """Deploy the first version, and follow the users from there."""
        manifest = self._knative.manifest(1)
        manifest["spec"]["predictor"]["model"]["storageUri"] = self._stable
        self._knative.bring(FirstDeploy(manifest))
        users = UsersWay(self._knative.cluster.api, self._knative.namespace, f"{NAME}-predictor")
        users.start()
        return users

    def turn(self, users: UsersWay) -> None:
        """Take one turn, and hold it against what users got."""
        if not self._candidate:
            self._start(users)
        elif self._choice.random() < 0.5:
            self._raise(users)
        elif self._choice.random() < 0.5:
            self._promote(users)
        else:
            self._roll_back(users)

    def _start(self, users: UsersWay) -> None:
        self._newest += 1
        self._candidate, self._weight = self._uri(self._newest), self._choice.choice(WEIGHTS)
        if self._choice.randrange(CRASHES_ONE_IN):
            self._reach(StartCanary(self._candidate, self._weight, version=self._newest), users)
            return
        self._knative.cluster.fates.of_version(self._candidate, Fate.CRASHES)
        self.turns.append(f"a candidate that crashes, {self._candidate}")
        # Knative's status or the pod's, whichever is seen first: the pod blames what the version was given to run with.
        with pytest.raises((CanaryRefusedError, UserError)):
            self._knative.bring(StartCanary(self._candidate, self._weight, version=self._newest))
        assert users.largest_share(self._candidate) == 0
        self._roll_back(users)

    def _raise(self, users: UsersWay) -> None:
        self._weight = self._choice.choice(WEIGHTS)
        self._reach(ShiftWeight(self._weight, self._candidate), users)

    def _promote(self, users: UsersWay) -> None:
        self._weight = WHOLE
        self._reach(Promote(self._candidate), users)
        self._stable, self._candidate, self._weight = self._candidate, "", 0

    def _roll_back(self, users: UsersWay) -> None:
        bad, self._candidate, self._weight = self._candidate, "", 0
        self._reach(RollBack(self._stable, bad), users)
        safe_s = self._knative.progress[-1].users_safe_s
        assert safe_s is not None
        assert users.largest_share(bad, since_s=safe_s) == 0

    def _reach(self, goal: Goal, users: UsersWay) -> None:
        self.turns.append(str(goal))
        before, began_s = users.versions_now().get(self._candidate, 0), time.monotonic()
        assert isinstance(self._knative.bring(goal).action, Done)
        shares = {self._stable: WHOLE - self._weight, self._candidate: self._weight}
        assert users.versions_now() == {uri: percent for uri, percent in shares.items() if percent}
        assert users.largest_share(self._candidate, since_s=began_s) <= max(before, self._weight)

    def _uri(self, version: int) -> str:
        return f"s3://{self._knative.namespace}/models/{NAME}/{version}/repository"


@pytest.mark.parametrize("seed", range(4))
def test_users_get_what_was_asked_for_and_no_more(knative: Rollouts, seed: int) -> None:
    """At the end of each turn the shares are those of the goal; on the way the candidate never has more than that."""
    walk = Walk(knative, seed)
    users = walk.begin()
    for _ in range(TURNS):
        try:
            walk.turn(users)
        except Exception as error:
            error.add_note(f"seed {seed}: " + " → ".join(walk.turns))
            raise
