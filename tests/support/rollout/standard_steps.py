"""Drive the model of KServe's Standard mode to a goal, step by step."""

from __future__ import annotations

import copy
from typing import Any

from include.model_release.rollout.next_action import (
    Done,
    Goal,
    Impossible,
    Patch,
    StartCanary,
    next_action,
)
from include.model_release.rollout.standard_view import backend_name, predictor_name
from include.sandbox.lab.simulation.cluster_model import futures
from include.sandbox.lab.simulation.standard_model import StandardModel, standard_live

V1, V2, V3 = "s3://b/v1", "s3://b/v2", "s3://b/v3"


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


def naive(model: StandardModel, spec: dict[str, Any]) -> StandardModel:
    """Return a copy of the model that somebody patched without looking."""
    changed = copy.deepcopy(model)
    changed.patch({"metadata": {}, "spec": spec})
    return changed


def failing(model: StandardModel) -> int:
    """Return the largest share of users that may be led to pods that are gone."""
    return max(one.users().get("", 0) for one in futures(model))
