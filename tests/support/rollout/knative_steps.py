"""Drive the model of KServe's Knative mode to a goal, step by step."""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.next_action import (
    Done,
    Goal,
    Impossible,
    Patch,
    StartCanary,
    next_action,
)
from slipway_sandbox.lab.simulation.edits import V3
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model


def drive(model: KnativeModel, goal: Goal, rounds: int = 30) -> Any:
    """Perform what is next until there is nothing more to do; return the last action."""
    action: Any = None
    for _ in range(rounds):
        action = next_action(goal, model.read())
        if isinstance(action, Done | Impossible):
            return action
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        model.settle(rounds=3)
    return action


def canary_at(weight: int, **settings: Any) -> KnativeModel:
    model = live_model(**settings)
    assert isinstance(drive(model, StartCanary(V3, weight, release_id="digits-3", version=3)), Done)
    return model
