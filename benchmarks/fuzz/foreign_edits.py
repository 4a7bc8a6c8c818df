"""A rollout beside people who change the InferenceService: what our patches may lead to, and what we say, is checked.

A scenario is a story that has brought the model of a cluster to a state, a goal, and what happens then: controllers act
one step at a time or lag, people edit, slipway takes turns, or acts by what it has read some time ago. In the models it
is known what users get, now and whatever the controllers may yet do in any order.

- No patch of slipway's makes the worst that users may get of a version worse, but for its goal's own weight.
- `Done` is said only of what users really get, and nobody is called safe who is not.
- Left alone with a rollback, in the Knative dialect, everybody gets the good version.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from benchmarks.fuzz.target import BrokenPromiseError
from slipway_core.rollout.fields import ANNOTATION_PREFIX
from slipway_core.rollout.next_action import (
    Action,
    Done,
    Expose,
    FirstDeploy,
    Goal,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    next_action,
)
from slipway_core.rollout.observation import Observed
from slipway_sandbox.lab.simulation.cluster_model import ClusterModel, ConflictError, futures
from slipway_sandbox.lab.simulation.edits import V1, V2, V3, V4, naming
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live

OLDER, GOOD, BAD, OTHER = V1, V2, V3, V4
Json = dict[str, Any]
# How many states the controllers may come to that a scenario still looks at; what lies beyond is not judged.
_FUTURES = 3000
_OUTLOOKS = 20_000
_TURNS = 30

GOALS: Mapping[str, Goal] = {
    "roll back": RollBack(GOOD, BAD),
    "roll back to it": RollBack(GOOD),
    "roll back after long": RollBack(GOOD, BAD, unnoted_may_go=True, unseen_may_serve=True),
    "start": StartCanary(BAD, 5, release_id="r", version=3),
    "raise": ShiftWeight(50, BAD),
    "promote": Promote(BAD),
    "first": FirstDeploy({"spec": {"predictor": {"model": {"storageUri": GOOD}}}}),
}
_ALLOWED = {"start": 5, "raise": 50, "promote": 100}
_CANARY = StartCanary(BAD, 20, release_id="r", version=3)
STORIES: Mapping[str, tuple[Goal, ...]] = {
    "live": (),
    "canary": (_CANARY,),
    "promoted": (_CANARY, Promote(BAD)),
    "rolled back": (_CANARY, RollBack(GOOD, BAD)),
}


def _without_notes(model: KnativeModel) -> Json:
    notes = dict.fromkeys(key for key in model.annotations if key.startswith(ANNOTATION_PREFIX))
    return {"metadata": {"annotations": notes}}


KNATIVE_EDITS: Mapping[str, Callable[[KnativeModel], Json]] = {
    "names good": lambda _: naming(GOOD),
    "names bad": lambda _: naming(BAD),
    "names other": lambda _: naming(OTHER),
    "names good, drops percent": lambda _: naming(GOOD, canaryTrafficPercent=None),
    "names bad, drops percent": lambda _: naming(BAD, canaryTrafficPercent=None),
    "replaces by good": lambda _: naming(GOOD, canaryTrafficPercent=None, annotations=None),
    "drops percent": lambda _: naming(canaryTrafficPercent=None),
    "percent 0": lambda _: naming(canaryTrafficPercent=0),
    "percent 30": lambda _: naming(canaryTrafficPercent=30),
    "percent 100": lambda _: naming(canaryTrafficPercent=100),
    "drops notes": _without_notes,
    "touches spec": lambda model: naming(minReplicas=model.generation),
}
KNATIVE_STEPS = ("sync", "kserve", "configuration", "ready", "ready_newest", "route", "ingress")
STANDARD_STEPS = ("sync", "reconcile", "route", "status", "gateway", "ready", "scale")


def _canaries(model: StandardModel, change: Callable[[Json], Json]) -> Json:
    entries = [change(copy.deepcopy(one)) for one in model.spec.get("canary", [])]
    return {"metadata": {}, "spec": {"canary": entries or None}}


STANDARD_EDITS: Mapping[str, Callable[[StandardModel], Json]] = {
    "names good": lambda _: naming(GOOD),
    "names bad": lambda _: naming(BAD),
    "names other": lambda _: naming(OTHER),
    "replaces by good": lambda model: {
        "metadata": {},
        "spec": {"canary": None, "predictor": {"name": None, "annotations": None, **_good_of(model)}},
    },
    "drops canary": lambda _: {"metadata": {}, "spec": {"canary": None}},
    "percent 0": lambda model: _canaries(model, lambda one: {**one, "trafficPercent": 0}),
    "percent 30": lambda model: _canaries(model, lambda one: {**one, "trafficPercent": 30}),
    "percent 100": lambda model: _canaries(model, lambda one: {**one, "trafficPercent": 100}),
    "canary serves other": lambda model: _canaries(model, lambda one: _serving(one, OTHER)),
    "touches spec": lambda model: naming(timeout=model.generation),
}


def _good_of(model: StandardModel) -> Json:
    return {"model": {**model.spec["predictor"]["model"], "storageUri": GOOD}}


def _serving(entry: Json, uri: str) -> Json:
    entry["predictor"]["model"]["storageUri"] = uri
    return entry


@cache
def _model_after(dialect: str, story: str) -> Any:
    model: Any = live_model() if dialect == "Knative" else standard_live()
    for goal in STORIES[story]:
        for _ in range(40):
            action = next_action(goal, model.read())
            if isinstance(action, Done):
                break
            if isinstance(action, Patch):
                model.patch(dict(action.body))
            model.settle(1)
        else:
            raise AssertionError(f"{goal} is not reached: {action}")
    model.settle()
    return model


_outlooks: dict[tuple[str, str], dict[str, int]] = {}


def outlook(model: ClusterModel) -> dict[str, int] | None:
    """Return the most that users may get of each version, now and by whatever the controllers do; None: too many."""
    quick = model.prompt() if isinstance(model, KnativeModel) else model
    key = (type(model).__name__, quick.key())
    if key not in _outlooks:
        if len(_outlooks) > _OUTLOOKS:
            _outlooks.clear()
        try:
            worst: dict[str, int] = {}
            for one in futures(quick, _FUTURES):
                for uri, share in one.users().items():
                    worst[uri] = max(share, worst.get(uri, 0))
        except AssertionError:
            return None
        _outlooks[key] = worst
    now = model.users()
    return {uri: max(now.get(uri, 0), _outlooks[key].get(uri, 0)) for uri in {*now, *_outlooks[key]}}


class _Run:
    """One scenario, as it goes on."""

    def __init__(self, dialect: str, story: str, goal: str) -> None:
        self.name, self.goal = goal, GOALS[goal]
        self.model: Any = copy.deepcopy(_model_after(dialect, story))
        self.is_knative = dialect == "Knative"
        self.held: Observed | None = None
        self.was_true = False

    def happen(self, event: str) -> None:
        """Let one thing happen: an edit, a turn of slipway's, or a step of the controllers."""
        edits: Mapping[str, Any] = KNATIVE_EDITS if self.is_knative else STANDARD_EDITS
        if event in edits:
            self.model.patch(edits[event](self.model))
        elif event == "undo":
            self._undo()
        elif event == "turn":
            self._act(self.model.read())
        elif event == "reads":
            self.held, self.was_true = self.model.read(), self._is_reached()
        elif event == "acts late":
            if self.held is not None:
                self._act(self.held)
        elif event == "all act":
            self.model.settle(1)
        elif event in self.model.steps:
            self.model.step(event)

    def end(self) -> None:
        """Let nobody disturb the goal any more, and see that it is reached."""
        for _ in range(_TURNS):
            action = next_action(self.goal, self.model.read())
            if isinstance(action, Done):
                break
            if isinstance(action, Patch):
                self.model.patch(dict(action.body))
            self.model.settle(2)
        if not isinstance(action, Done) or self.model.users() != {GOOD: 100}:
            raise BrokenPromiseError(f"it ends with {action}, and users get {self.model.users()}")

    def _undo(self) -> None:
        """Put the whole object back to what it was in another story, as `kubectl replace` with a saved file does."""
        saved = _model_after("Knative" if self.is_knative else "Standard", "live")
        if self.is_knative and self.model.spec["model"] != saved.spec["model"]:
            self.model.named_by = "somebody"
        self.model.spec, self.model.annotations = saved.spec, saved.annotations
        self.model.generation += 1
        self.model.resource_version += 1

    def _act(self, observed: Observed) -> None:
        action = next_action(self.goal, observed)
        is_new = observed.resource_version == str(self.model.resource_version)
        if isinstance(action, Done) and not (self._is_reached() or (not is_new and self.was_true)):
            raise BrokenPromiseError(f"Done ({action.reason}), and users get {self.model.users()}")
        if is_new and self._says_safe(action, observed) and self.model.share(BAD):
            raise BrokenPromiseError(f"users are called safe, and get {self.model.users()}: {action}")
        if isinstance(action, Expose):
            self.model.expose(dict(action.body))
        if isinstance(action, Patch):
            self._patch(action)

    def _says_safe(self, action: Action, observed: Observed) -> bool:
        if not isinstance(self.goal, RollBack):
            return False
        return (isinstance(action, Wait) and action.users_safe) or observed.is_shielded_from(BAD)

    def _patch(self, action: Patch) -> None:
        before = copy.deepcopy(self.model)
        try:
            self.model.patch(dict(action.body))
        except ConflictError:
            return
        was, now = outlook(before), outlook(self.model)
        if was is None or now is None:
            return
        # A canary's start may revive what was rolled out before stable, while KServe's status lags: KServe's own doing,
        # with or without anybody's edit.
        revived = self._served_before() if self.name == "start" else ""
        for uri in {BAD, OTHER} - {revived}:
            if uri == OTHER and now.get(BAD, 0) < was.get(BAD, 0):
                # Who is taken off the candidate goes wherever stable is, whatever somebody has made of it.
                continue
            allowed = max(was.get(uri, 0), _ALLOWED.get(self.name, 0) if uri == BAD else 0)
            if now.get(uri, 0) > allowed:
                raise BrokenPromiseError(
                    f"{action.phase} ({action.reason}): {uri} may get {now[uri]} %, before {was.get(uri, 0)} %"
                )

    def _served_before(self) -> str:
        if not self.is_knative:
            return ""
        serving = dict(self.model.revisions)
        return str(serving.get(self.model.component.get("previousRolledoutRevision"), ("",))[0])

    def _is_reached(self) -> bool:
        users = self.model.users()
        if isinstance(self.goal, RollBack | FirstDeploy):
            return users == {GOOD: 100}
        weight = _ALLOWED[self.name]
        return users.get(BAD, 0) == weight and sum(users.values()) == 100


def play(dialect: str, events: Sequence[str]) -> None:
    """Let the events happen after each story and with each goal.

    :raises BrokenPromiseError: a patch of ours may have led users to what they did not get without, or something was
        said that is not so.
    """
    for story in STORIES:
        for goal in GOALS:
            run = _Run(dialect, story, goal)
            try:
                for event in (*events, "turn"):
                    run.happen(event)
                if dialect == "Knative" and goal == "roll back to it":
                    run.end()
            except BrokenPromiseError as error:
                raise BrokenPromiseError(f"{story}, {goal}: {error}") from None


def one_edit(dialect: str) -> list[list[str]]:
    """Return every single edit, before and after slipway's first turn, with controllers that lag more or less."""
    edits, steps = parts(dialect)
    lags: tuple[list[str], ...] = ([], list(steps[:2]), list(steps[:4]), ["all act"])
    return [[*first, edit, *lag, "turn", *lag] for first in ([], ["turn"]) for edit in edits for lag in lags]


def some_edits(rng: Random, dialect: str) -> list[str]:
    """Return one or two edits at any moment, among turns and steps."""
    edits, steps = parts(dialect)
    kinds = ("turn", "step", "all act", "reads", "acts late")
    events = rng.choices(kinds, (40, 35, 10, 7, 8), k=rng.randint(3, 12))
    events = [rng.choice(steps) if one == "step" else one for one in events]
    for _ in range(rng.randint(1, 2)):
        events.insert(rng.randrange(len(events)), rng.choice(edits))
    return events


def parts(dialect: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the edits and the controllers' steps of a dialect."""
    if dialect == "Knative":
        return [*KNATIVE_EDITS, "undo"], KNATIVE_STEPS
    return [*STANDARD_EDITS, "undo"], STANDARD_STEPS
