"""Whatever happens: once a rollback has begun, the bad version gets no more users, and the good one ends up alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.standard.replicas import needed
from slipway_core.rollout.next_action import (
    Action,
    Done,
    Expose,
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
from slipway_core.rollout.reconciler import Act, Acted, Limits, Reached, Reconciler, Saw
from slipway_sandbox.lab.simulation.cluster_model import ClusterModel, ConflictError, futures, worst_share
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live
from tests.support.examples import examples

GOOD, BAD = "s3://b/v2", "s3://b/v3"
BACK = RollBack(GOOD, BAD)
SHOW = ShowCandidate(BAD, release_id="r", version=3)


@dataclass(frozen=True)
class Chapter:
    """One goal of the canary: driven until it is reached, or left after some turns; then some steps, in any order."""

    goal: Goal
    is_reached: bool
    turns: int
    steps: tuple[int, ...]
    is_read: bool


def _chapters(*goals: Goal) -> st.SearchStrategy[list[Chapter]]:
    in_turn = st.just((0, 1, 2, 3, 4, 5))
    steps = st.one_of(st.lists(st.integers(0, 5), max_size=8).map(tuple), in_turn)
    return st.tuples(
        *(
            st.builds(Chapter, st.just(goal), st.booleans(), st.integers(1, 2), steps, st.booleans())
            for goal in goals
        )
    ).map(list)


# What may have happened before somebody decides to go back.
STORIES = st.one_of(
    _chapters(),
    _chapters(StartCanary(BAD, 5, release_id="r", version=3)),
    _chapters(StartCanary(BAD, 50), ShiftWeight(99, BAD)),
    _chapters(StartCanary(BAD, 5), Promote(BAD)),
    _chapters(StartCanary(BAD, 5), ShiftWeight(99, BAD), Promote(BAD)),
    _chapters(SHOW),
    _chapters(SHOW, StartCanary(BAD, 5)),
    _chapters(SHOW, StartCanary(BAD, 5), ShiftWeight(99, BAD)),
    _chapters(SHOW, StartCanary(BAD, 50), Promote(BAD)),
)


class RolledBackCanary(RuleBasedStateMachine):
    """A canary of BAD over GOOD that came some way, the decision to go back, and everybody who does not know of it.

    A task reads and then acts on what it has read, perhaps long after: `held` is what somebody has read and not
    acted on yet. A conflict makes the action void; an answer that is lost leaves the patch in place; a restart
    forgets what was read; a duplicate is one more task.

    Starts and previews carry the generation at which they were decided on, as the release's tasks do: what was seen
    when the release was armed (`first_generation`) or when a preview was seen to be up, by the task itself or by a
    duplicate of it at any later time (`decided`).

    `began` tells whether the rollback has left a trace since it was decided: only what lies in the cluster can
    stop a task of the canary that does not know of the decision.
    """

    model: ClusterModel

    def begin(self, model: ClusterModel, story: list[Chapter]) -> None:
        """Start from a version that has all users, tell the story so far, and decide to go back."""
        self.model = model
        self.first_generation = model.read().generation
        self.decided = [self.first_generation]
        self.held: list[tuple[Goal, Observed]] = []
        self.is_decided = self.began = False
        self.ceiling = 100
        for chapter in story:
            for _ in range(12 if chapter.is_reached else chapter.turns):
                self._turn(self._as_decided(chapter.goal))
                self.controllers_go_on(len(self.model.steps) if chapter.is_reached else 0)
            for index in chapter.steps:
                self._step(self.model.steps[index])
            if chapter.is_read:
                self.held.append((self._as_decided(chapter.goal), self.model.read()))
        self.ceiling = self.worst_of(self.model)
        self.is_decided = True

    def worst_of(self, model: ClusterModel) -> int:
        """The largest share of users that BAD may get by the controllers' progress alone."""
        return worst_share(model, BAD)

    # --- controllers ---

    @rule(indices=st.lists(st.integers(0, 6), min_size=1, max_size=8))
    def controllers_act(self, indices: list[int]) -> None:
        """The controllers act in any order."""
        for index in indices:
            self._step(self.model.steps[index % len(self.model.steps)])

    @rule(count=st.integers(1, 20))
    def controllers_go_on(self, count: int) -> None:
        """The controllers act in turn, and stop anywhere."""
        for index in range(count):
            self._step(self.model.steps[index % len(self.model.steps)])

    def _step(self, name: str) -> None:
        self.model.step(name)
        self.bad_share_never_rises()

    # --- the rollback ---

    @rule()
    def roll_back(self) -> None:
        """Somebody takes a turn of the rollback."""
        self._back()

    @rule(pauses=st.lists(st.integers(0, 20), min_size=1, max_size=4))
    def rollback_goes_on(self, pauses: list[int]) -> None:
        """The rollback takes turns while the controllers work."""
        for count in pauses:
            self._back()
            self.controllers_go_on(count)

    def _back(self) -> None:
        """A turn of the rollback, after which nobody who does not know of it can do harm, whoever comes next."""
        self._turn(BACK)
        if not self.began:
            return
        observed = self.model.read()
        for goal in self._duplicates(observed):
            action = next_action(goal, observed)
            if isinstance(action, Patch):
                assert not isinstance(goal, ShowCandidate), (
                    "the candidate comes up again after it was rolled back"
                )
                harmed = copy.deepcopy(self.model)
                harmed.patch(dict(action.body))
                assert self.worst_of(harmed) <= self.ceiling, f"{goal} raises the bad version's share"

    def _duplicates(self, observed: Observed) -> list[Goal]:
        """Every task of the canary that may still be about."""
        shows = [replace(SHOW, force=force, generation=self.first_generation) for force in (True, False)]
        up = [observed.generation] if isinstance(next_action(shows[0], observed), Done) else []
        starts = [
            StartCanary(BAD, 99, force=force, generation=generation)
            for generation in (*self.decided, *up)
            for force in (True, False)
        ]
        return [*shows, *starts, ShiftWeight(99, BAD), ShiftWeight(99), Promote(BAD), Promote()]

    # --- those who do not know ---

    @rule(weight=st.sampled_from([5, 99]), index=st.integers(0, 3), force=st.booleans())
    def start(self, weight: int, index: int, force: bool) -> None:
        """A duplicate takes a turn of the canary's start, or of the raise of a preview."""
        generation = self.decided[index % len(self.decided)]
        self._turn(StartCanary(BAD, weight, force=force, generation=generation))

    @rule(force=st.booleans())
    def show(self, force: bool) -> None:
        """A duplicate takes a turn of the preview; what it finds to be up it passes on as decided."""
        self._turn(replace(SHOW, force=force, generation=self.first_generation))

    @rule(goal=st.sampled_from([ShiftWeight(50, BAD), ShiftWeight(99), Promote(BAD), Promote()]))
    def go_forward(self, goal: Goal) -> None:
        """A duplicate takes a turn of a step, or of the promotion."""
        self._turn(goal)

    @rule(goal=st.sampled_from([BACK, ShiftWeight(99, BAD), Promote(BAD), StartCanary(BAD, 99), SHOW]))
    def read_now(self, goal: Goal) -> None:
        """A task reads, and will act later."""
        self.held.append((self._as_decided(goal), self.model.read()))

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 5))
    def act_late(self, index: int) -> None:
        """A task acts on what it has read some time ago."""
        goal, observed = self.held.pop(index % len(self.held))
        self._act(goal, next_action(goal, observed), observed)

    @rule()
    def restart(self) -> None:
        """Whoever had read something is gone."""
        self.held.clear()

    def _as_decided(self, goal: Goal) -> Goal:
        """The goal with the generation at which its task decided."""
        if isinstance(goal, StartCanary):
            return replace(goal, generation=self.decided[-1])
        if isinstance(goal, ShowCandidate):
            return replace(goal, generation=self.first_generation)
        return goal

    def _turn(self, goal: Goal) -> None:
        observed = self.model.read()
        action = next_action(goal, observed)
        if isinstance(goal, ShowCandidate) and isinstance(action, Done):
            self.decided.append(observed.generation)
        self._act(goal, action, observed)

    def _act(self, goal: Goal, action: Action, observed: Observed) -> None:
        if isinstance(action, Expose):
            self.expose(action)
        if not isinstance(action, Patch):
            return
        if self.is_decided and not self.began and goal != BACK:
            return
        try:
            self.model.patch(dict(action.body))
        except ConflictError:
            return
        self.began = goal == BACK or self.began
        if self.began:
            worst = self.worst_of(self.model)
            assert worst <= self.ceiling, f"{goal} may raise the bad version's share to {worst} %"
            self.ceiling = worst

    def expose(self, action: Expose) -> None:
        """Lay an HTTPRoute into the cluster; only one dialect has any."""

    def send(self, action: Action | PatchMade) -> None:
        """Carry an action of the rollback out."""
        if isinstance(action, Patch):
            self.model.patch(dict(action.body))

    @invariant()
    def bad_share_never_rises(self) -> None:
        """The share of users on the bad version is never above what it could be when last looked."""
        assert self.model.share(BAD) <= self.ceiling

    def teardown(self) -> None:
        """Left alone with the rollback, it ends with the good version alone, and stays there."""
        limits = Limits(poll_s=1.0, unnoted_after_s=20.0)
        reconciler = Reconciler(BACK, limits, name="models/digits", began_s=0.0)
        for second in range(60):
            step = reconciler.next(Saw(self.model.read()), float(second))
            if isinstance(step, Reached):
                break
            if isinstance(step, Act):
                self.send(step.action)
                reconciler.next(Acted(accepted=True), float(second))
            self.model.settle(rounds=2)
        assert isinstance(step, Reached), step
        assert all(one.users() == {GOOD: 100} for one in futures(self.model))
        observed = self.model.read()
        assert (observed.storage_uri, observed.canary_percent) == (GOOD, None)


class KnativeRollback(RolledBackCanary):
    """In the Knative dialect, with an ingress that may be slow, die and come back.

    What is said of users is true of what the ingress does. One thing nobody can tell: a status from before, where the
    spec has had the same percent before, as the 0 % of a preview that was raised and is taken back.
    """

    model: KnativeModel

    @initialize(
        ingress_is_alive=st.booleans(),
        own_generation=st.booleans(),
        annotations_reach_revisions=st.booleans(),
        unloadable=st.sampled_from([frozenset(), frozenset({BAD})]),
        story=STORIES,
    )
    def live(self, story: list[Chapter], ingress_is_alive: bool, **given: Any) -> None:
        """GOOD has all users; when it is decided to go back, the ingress may be dead."""
        self.had_preview = any(isinstance(chapter.goal, ShowCandidate) for chapter in story)
        self.begin(live_model(**given), story)
        self.model.ingress_is_alive = ingress_is_alive

    def worst_of(self, model: ClusterModel) -> int:
        """The largest share that users may get of BAD, by the ingress as it is or whenever it acts."""
        assert isinstance(model, KnativeModel)
        return max(model.share(BAD), worst_share(model.prompt(), BAD))

    @rule(is_alive=st.booleans())
    def ingress_dies_or_returns(self, is_alive: bool) -> None:
        """From now on the ingress takes no change, or takes them again."""
        self.model.ingress_is_alive = is_alive

    def _act(self, goal: Goal, action: Action, observed: Observed) -> None:
        if goal == BACK and observed.resource_version == self.model.read().resource_version:
            self._is_true(action, observed)
        super()._act(goal, action, observed)

    def _is_true(self, action: Action, observed: Observed) -> None:
        """Nobody is told that users are safe, or that the rollback is done, while the ingress leads users to BAD."""
        says_safe = isinstance(action, Done) or (isinstance(action, Wait) and action.users_safe)
        if (says_safe or observed.is_shielded_from(BAD)) and not self.had_preview:
            assert self.model.share(BAD) == 0, action

    def teardown(self) -> None:
        """The rollback goes as far as the ingress lets it, and says nothing more; once that is back, it ends."""
        for _ in range(12):
            self._turn(BACK)
            self.model.settle(rounds=2)
            self.bad_share_never_rises()
        self.model.ingress_is_alive = True
        super().teardown()


class StandardRollback(RolledBackCanary):
    """In the Standard dialect; here nobody's request may lead to pods that are gone, or to too few, either.

    But pods of the stable predictor may be lost, and KServe leave the routes as they are for it: at least one of the
    good version's stays, and each of the bad one's may go.
    """

    model: StandardModel
    is_lossless = True

    @initialize(
        unloadable=st.sampled_from([frozenset(), frozenset({BAD})]),
        replicas=st.sampled_from([None, 1, 3]),
        story=STORIES,
    )
    def live(self, story: list[Chapter], **given: Any) -> None:
        """GOOD has all users."""
        self.replicas = given["replicas"] or 1
        self.begin(standard_live(**given), story)

    def expose(self, action: Expose) -> None:
        """Lay an HTTPRoute into the cluster."""
        self.model.expose(dict(action.body))

    @rule(pods=st.integers(1, 3))
    def stable_loses_pods(self, pods: int) -> None:
        """Pods of whatever is stable crash, and go on crashing."""
        stable = self.model.state.workload(self.model.state.stable)
        assert stable is not None
        is_good = stable.newest.storage_uri == GOOD
        self.model.lose(stable.name, min(pods, self.replicas - is_good))
        self.is_lossless = False

    @rule()
    def routes_are_written(self) -> None:
        """Somebody has waited in vain for KServe to write a rollback's weights."""
        action = next_action(BACK, self.model.read())
        if isinstance(action, Wait) and action.fallback is not None:
            self.send(action.fallback)

    def send(self, action: Action | PatchMade) -> None:
        """Carry an action of the rollback out."""
        if isinstance(action, PatchMade):
            self.model.patch_made(action)
        super().send(action)

    def _step(self, name: str) -> None:
        super()._step(name)
        self.nobody_is_led_nowhere()

    @invariant()
    def nobody_is_led_nowhere(self) -> None:
        """Whatever has users has the pods that carry them: its share of as many as stable had."""
        for name, percent in self.model.led_to().items():
            carrying = self.model.available(name)
            assert not percent or not self.is_lossless or carrying >= needed(self.replicas, percent)

    def teardown(self) -> None:
        """Stable's own number of replicas is what it was, too."""
        super().teardown()
        assert self.model.spec["predictor"].get("minReplicas", 1) == self.replicas
        assert "canary" not in self.model.spec


_LIMITS = settings(
    max_examples=examples(60),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
KnativeRollback.TestCase.settings = _LIMITS
StandardRollback.TestCase.settings = _LIMITS
TestKnativeRollback = KnativeRollback.TestCase
TestStandardRollback = StandardRollback.TestCase
