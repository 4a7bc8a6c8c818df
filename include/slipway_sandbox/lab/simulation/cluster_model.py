"""What controllers may yet make of a model of a cluster, in whatever order they act."""

from __future__ import annotations

import copy
from typing import Any, Protocol, TypeVar

from slipway_core.rollout.observation import Observed


class ConflictError(Exception):
    """409: the patch was decided on another resourceVersion."""


class ClusterModel(Protocol):
    """One InferenceService and the controllers that act on it, one step at a time."""

    resource_version: int

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that may come next."""

    def step(self, name: str) -> None:
        """Let one controller do one thing."""

    def settle(self, rounds: int = ...) -> None:
        """Let all controllers run."""

    def patch(self, body: dict[str, Any]) -> None:
        """Apply a merge patch; raises `ConflictError`."""

    def read(self) -> Observed:
        """Read as a client does."""

    def share(self, uri: str) -> int:
        """Return the percent of users who get `uri`."""

    def users(self) -> dict[str, int]:
        """Return the percent of users by URI."""

    def key(self) -> str:
        """Return what decides everything that can still happen."""


Model = TypeVar("Model", bound=ClusterModel)


def futures(model: Model, limit: int = 20_000) -> list[Model]:
    """Return every state that the controllers may come to by themselves, the present one first."""
    seen, found, waiting = {model.key()}, [model], [model]
    while waiting:
        current = waiting.pop()
        for name in current.steps:
            following = copy.deepcopy(current)
            following.step(name)
            if following.key() not in seen:
                seen.add(following.key())
                found.append(following)
                waiting.append(following)
        if len(seen) > limit:
            raise AssertionError("the model has more states than the test explores")
    return found


def worst_share(model: ClusterModel, uri: str) -> int:
    """Return the largest share that `uri` may get by the controllers' progress alone."""
    return max(one.share(uri) for one in futures(model))
