"""Drive the model of KServe's Standard mode to a goal, step by step."""

from __future__ import annotations

import copy
from typing import Any

from slipway_core.errors import SlipwayError
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name
from slipway_core.rollout.next_action import (
    Done,
    Goal,
    Impossible,
    Patch,
    StartCanary,
    Wait,
    next_action,
)
from slipway_core.rollout.reconciler import (
    Act,
    Acted,
    Event,
    Failed,
    GiveUp,
    Limits,
    Observe,
    Pause,
    Reached,
    Reconciler,
    Saw,
    Step,
    Waited,
)
from slipway_sandbox.lab.simulation.cluster_model import ConflictError, futures
from slipway_sandbox.lab.simulation.edits import V3
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live

STABLE, CANDIDATE = backend_name("digits", ""), backend_name("digits", predictor_name(V3))
START = StartCanary(V3, 20, release_id="digits-3", version=3)


def drive(model: StandardModel, goal: Goal, rounds: int = 40) -> Any:
    """Perform what is next until there is nothing more to do; return the last action."""
    action: Any = None
    for _ in range(rounds):
        action = next_action(goal, model.read())
        if isinstance(action, Done | Impossible):
            return action
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        model.settle(rounds=1)
    return action


def canary_at(weight: int, **settings: Any) -> StandardModel:
    model = standard_live(**settings)
    goal = StartCanary(V3, weight, release_id="digits-3", version=3)
    assert isinstance(drive(model, goal), Done)
    return model


def patched(model: StandardModel, goal: Goal) -> Any:
    """Return the next action, which must be a patch, after performing it; the controllers rest."""
    action = next_action(goal, model.read())
    assert isinstance(action, Patch), action
    model.patch(dict(action.body))
    return action


def given_users(model: StandardModel, percent: int) -> None:
    """Give the canary its percent as somebody would who waits for nothing."""
    model.patch(
        {"metadata": {}, "spec": {"canary": [{**model.spec["canary"][0], "trafficPercent": percent}]}}
    )


def naive(model: StandardModel, spec: dict[str, Any]) -> StandardModel:
    """Return a copy of the model that somebody patched without looking."""
    changed = copy.deepcopy(model)
    changed.patch({"metadata": {}, "spec": spec})
    return changed


class Carried:
    """The reconciler, carried out on a model that goes on by `rounds` each second; `acts` are what was sent.

    :param refused: what an attempt to write what KServe has made meets; None: it is taken.
    :param hanging: likewise of the InferenceService.
    """

    def __init__(
        self,
        model: StandardModel | KnativeModel,
        goal: Goal,
        *,
        refused: SlipwayError | None = None,
        hanging: SlipwayError | None = None,
    ) -> None:
        self.model, self.refused, self.hanging = model, refused, hanging
        self.acts: list[Any] = []
        self.waits: list[str] = []
        self._reconciler = Reconciler(goal, Limits(poll_s=1.0), name="models/digits", began_s=0.0)

    def run(self, seconds: int = 60, rounds: int = 1) -> Step:
        """Carry out what it says for so many seconds, or until it is over."""
        event: Event = Waited()
        step: Step = Observe()
        for second in range(seconds):
            while True:
                step = self._reconciler.next(event, float(second))
                if isinstance(step, Reached | GiveUp):
                    return step
                event = self._carried_out(step)
                if isinstance(step, Pause):
                    break
            self.model.settle(rounds)
        return step

    def _carried_out(self, step: Step) -> Event:
        match step:
            case Observe():
                return Saw(self.model.read())
            case Act():
                return self._sent(step.action)
            case Pause() if step.after is not None and isinstance(step.after.action, Wait):
                self.waits.append(step.after.action.reason)
        return Waited()

    def _sent(self, action: Any) -> Event:
        self.acts.append(action)
        try:
            if isinstance(action, Patch):
                if self.hanging is not None:
                    return Failed(self.hanging)
                self.model.patch(dict(action.body))
            elif self.refused is not None:
                return Failed(self.refused)
            else:
                self.model.patch_made(action)
        except ConflictError:
            return Acted(accepted=False)
        return Acted(accepted=True)


def failing(model: StandardModel) -> int:
    """Return the largest share of users that may be led to pods that are gone."""
    return max(one.users().get("", 0) for one in futures(model))
