"""The plan of a canary: which weights, how long each, and what may be met or waited for on the way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from slipway_core.errors import SpecError
from slipway_core.spec.parts import Count, Seconds, SpecPart

OnInconclusive = Literal["hold", "rollback", "golden_replay"]


class RolloutStep(SpecPart):
    """One weight of the canary and how long it is watched there."""

    weight: Annotated[int, Field(ge=1, le=99)]
    """Percent of traffic."""
    bake_s: Seconds
    """The least number of seconds for which the step is watched."""


class Exposure(SpecPart):
    """The most that users may meet of a candidate before it is promoted; beyond it the canary is rolled back."""

    max_requests: Count | None = None
    max_errors: Count | None = None


_NO_LIMIT = Exposure()


@dataclass(frozen=True)
class CanaryPlan:
    """The steps in their order and the limits, as `rollout` of a release file gives them (`Rollout.plan`).

    :param window_s: how often the judge looks.
    :param max_bake_s: how long a step may be prolonged while the judge cannot tell.
    :param on_inconclusive: what happens after that. `golden_replay` is `rollback` with a golden replay
        before it.
    :param max_no_data_windows: after so many windows in a row without metrics the canary ends likewise.
    :param exposure: what users may meet of the candidate over the whole canary.
    :raises SpecError: there is no step, or the weights do not rise.
    """

    steps: tuple[RolloutStep, ...]
    window_s: float = 10.0
    max_bake_s: float = 600.0
    on_inconclusive: OnInconclusive = "rollback"
    max_no_data_windows: int = 3
    exposure: Exposure = _NO_LIMIT

    def __post_init__(self) -> None:
        if not self.steps or not weights_rise(self.steps):
            raise SpecError(
                "the steps of the canary do not make a plan",
                expected="at least one step, weights rising within 1 to 99 percent",
                found=f"weights {[step.weight for step in self.steps]}",
                remedy="correct `rollout.steps` in the release file",
            )


def weights_rise(steps: Sequence[RolloutStep]) -> bool:
    """Return whether each step has a higher weight than the one before it."""
    return all(low.weight < high.weight for low, high in itertools.pairwise(steps))
