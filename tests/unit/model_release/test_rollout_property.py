"""Whatever happens: once a rollback has begun, the bad version gets no more users, and the good one ends up alone."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from include.model_release.isvc_observation import Observed
from include.model_release.rollout import (
    Action,
    Done,
    Goal,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    next_action,
)
from tests.unit.model_release.foresight import ClusterModel, ConflictError, futures, worst_share
from tests.unit.model_release.knative_model import live_model
from tests.unit.model_release.standard_model import StandardModel, standard_live

GOOD, BAD = "s3://b/v2", "s3://b/v3"
WEIGHTS = st.sampled_from([5, 50, 99])
# How far the canary has come when the machine begins: each goal reached, or left after some turns and steps.
STORIES = st.tuples(
    st.sampled_from(
        [
            [],
            [StartCanary(BAD, 5, release_id="r", version=3)],
            [StartCanary(BAD, 50), ShiftWeight(99, BAD)],
            [StartCanary(BAD, 5), Promote(BAD)],
            [StartCanary(BAD, 5), ShiftWeight(99, BAD), Promote(BAD)],
        ]
    ),
    st.lists(st.tuples(st.booleans(), st.integers(0, 20)), min_size=3, max_size=3),
)


class RolledBackCanary(RuleBasedStateMachine):
    """A canary of BAD over GOOD, by tasks that may be duplicates, slow or dead, and the rollback of it.

    A task reads and then acts on what it has read, perhaps long after: `held` is what somebody has read and not
    acted on yet. A conflict makes the action void; an answer that is lost leaves the patch in place, and a restart
    forgets what was read.
    """

    model: ClusterModel

    def begin(self, model: ClusterModel, story: tuple[list[Goal], list[tuple[bool, int]]]) -> None:
        """Start from a version that has all users, and tell the story so far."""
        self.model = model
        self.first_generation = model.read().generation
        self.held: list[tuple[Goal, Observed]] = []
        self.decided = False
        # Only what lies in the cluster can stop a task of the canary that does not know of the decision.
        self.began = False
        self.ceiling = 100
        for goal, (is_reached, steps) in zip(*story, strict=False):
            for _ in range(20 if is_reached else 1):
                self._turn(goal)
                self.model.settle(rounds=int(is_reached))
            self.controllers_go_on(steps)

    # --- controllers ---

    @rule(names=st.data(), count=st.integers(1, 8))
    def controllers_act(self, names: st.DataObject, count: int) -> None:
        """The controllers act in any order."""
        for name in names.draw(st.lists(st.sampled_from(self.model.steps), min_size=count, max_size=count)):
            self._step(name)

    @rule(count=st.integers(1, 20))
    def controllers_go_on(self, count: int) -> None:
        """The controllers act in turn, and stop anywhere."""
        for index in range(count):
            self._step(self.model.steps[index % len(self.model.steps)])

    def _step(self, name: str) -> None:
        self.model.step(name)
        self.bad_share_never_rises()

    # --- the canary ---

    @rule(weight=WEIGHTS)
    def start(self, weight: int) -> None:
        """Somebody takes a turn of the canary's start."""
        self._turn(StartCanary(BAD, weight, release_id="r", version=3, generation=self.first_generation))

    @rule(weight=WEIGHTS)
    def shift(self, weight: int) -> None:
        """Somebody takes a turn of a step."""
        self._turn(ShiftWeight(weight, BAD))

    @rule()
    def promote(self) -> None:
        """Somebody takes a turn of the promotion."""
        self._turn(Promote(BAD))

    # --- the rollback ---

    @rule()
    def roll_back(self) -> None:
        """Somebody takes a turn of the rollback; the first one is the decision."""
        if not self.decided:
            self.decided = True
            self.ceiling = worst_share(self.model, BAD)
        self._turn(RollBack(GOOD, BAD))

    @precondition(lambda self: self.decided)
    @rule(turns=st.lists(st.integers(0, 20), min_size=1, max_size=4))
    def rollback_goes_on(self, turns: list[int]) -> None:
        """The rollback takes turns while the controllers work."""
        for steps in turns:
            self._turn(RollBack(GOOD, BAD))
            self.controllers_go_on(steps)

    # --- tasks that are slow ---

    @rule(goal=st.sampled_from([RollBack(GOOD, BAD), ShiftWeight(99, BAD), Promote(BAD)]))
    def read_now(self, goal: Goal) -> None:
        """A task reads, and will act later."""
        self.held.append((goal, self.model.read()))

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 5))
    def act_late(self, index: int) -> None:
        """A task acts on what it has read some time ago."""
        goal, observed = self.held.pop(index % len(self.held))
        if isinstance(goal, RollBack) and not self.decided:
            return
        self._act(goal, next_action(goal, observed))

    @rule()
    def restart(self) -> None:
        """Whoever had read something is gone."""
        self.held.clear()

    def _turn(self, goal: Goal) -> None:
        self._act(goal, next_action(goal, self.model.read()))

    def _act(self, goal: Goal, action: Action) -> None:
        is_canary = not isinstance(goal, RollBack)
        if not isinstance(action, Patch) or (is_canary and self.decided and not self.began):
            return
        try:
            self.model.patch(dict(action.body))
        except ConflictError:
            return
        if not self.decided:
            return
        self.began = True
        worst = worst_share(self.model, BAD)
        assert worst <= self.ceiling, f"{goal} may raise the bad version's share to {worst} %"
        self.ceiling = worst

    @invariant()
    def bad_share_never_rises(self) -> None:
        """The share of users on the bad version is never above what it could be when last looked."""
        if self.decided:
            assert self.model.share(BAD) <= self.ceiling

    def teardown(self) -> None:
        """Left alone with the rollback, it ends with the good version alone, and stays there."""
        for _ in range(60):
            action = next_action(RollBack(GOOD, BAD), self.model.read())
            if isinstance(action, Done):
                break
            if isinstance(action, Patch):
                self.model.patch(dict(action.body))
            self.model.settle(rounds=2)
        assert isinstance(action, Done), action
        self.model.settle()
        assert self.model.users() == {GOOD: 100}
        assert self.model.read().canary_percent is None
        assert self.model.read().storage_uri == GOOD


class KnativeRollback(RolledBackCanary):
    """In the Knative dialect."""

    @initialize(
        own_generation=st.booleans(),
        annotations_reach_revisions=st.booleans(),
        unloadable=st.sampled_from([frozenset(), frozenset({BAD})]),
        story=STORIES,
    )
    def live(self, story: Any, **given: Any) -> None:
        """GOOD has all users."""
        self.begin(live_model(**given), story)


class StandardRollback(RolledBackCanary):
    """In the Standard dialect; here nobody's request may lead to pods that are gone, either."""

    model: StandardModel

    @initialize(
        unloadable=st.sampled_from([frozenset(), frozenset({BAD})]),
        replicas=st.sampled_from([None, 1, 3]),
        story=STORIES,
    )
    def live(self, story: Any, **given: Any) -> None:
        """GOOD has all users."""
        self.replicas = given["replicas"] or 1
        self.begin(standard_live(**given), story)

    def _step(self, name: str) -> None:
        super()._step(name)
        self.nobody_is_led_nowhere()

    @invariant()
    def nobody_is_led_nowhere(self) -> None:
        """Whatever has users has pods that answer, as many as stable had."""
        for name, percent in self.model.led_to().items():
            workload = self.model.state.workload(name)
            assert not percent or (workload and workload.serving and workload.replicas >= self.replicas)

    def teardown(self) -> None:
        """Stable's own number of replicas is what it was, too."""
        super().teardown()
        for one in futures(self.model):
            assert one.users() == {GOOD: 100}
        stable = self.model.spec["predictor"]
        assert stable.get("minReplicas", 1) == self.replicas
        assert "canary" not in self.model.spec


_LIMITS = settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
KnativeRollback.TestCase.settings = _LIMITS
StandardRollback.TestCase.settings = _LIMITS
TestKnativeRollback = KnativeRollback.TestCase
TestStandardRollback = StandardRollback.TestCase
