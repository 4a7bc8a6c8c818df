"""The steps of a release in their order, and which of them is done, under way or ahead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from slipway_core.record.requirements import MIRROR_GATE, SMOKE_TEST_GATE
from slipway_core.record.stage_names import ASKED_BEFORE
from slipway_core.record.state import ReleaseState, Stage, StepResult

StepState = Literal["done", "here", "ahead", "skipped", "failed"]

# The stages that every release has, in their order; the canary's steps are put in their place.
_BEFORE_TRAFFIC = ("convert", "choose", "publish", "stage", "validate", "benchmark")
_CANARY, _PROMOTE = "canary", "promote"
_ORDER = (
    "convert",
    "choose",
    "publish",
    SMOKE_TEST_GATE,
    "stage",
    "validate",
    "benchmark",
    "preview",
    MIRROR_GATE,
    "approve",
    _CANARY,
    "hold",
    "approve_promotion",
    _PROMOTE,
    "roll_back",
)
_ASKED = {before: stage for stage, before in ASKED_BEFORE.items()}
_STATES: dict[str, StepState] = {
    "running": "here",
    "passed": "done",
    "reused": "done",
    "left_out": "skipped",
    "skipped": "skipped",
    "refused": "failed",
    "failed": "failed",
    "inconclusive": "failed",
    "cancelled": "failed",
}


@dataclass(frozen=True)
class Step:
    """A stage, or a step of the canary with its `weight`; times and counts are None if they are not known."""

    name: str
    state: StepState
    weight: int | None = None
    outcome: str = ""
    reason: str = ""
    seconds: float | None = None
    started_at: datetime | None = None
    candidate_requests: int | None = None
    candidate_errors: int | None = None


def steps_of(state: ReleaseState, *, is_rollback: bool = False) -> list[Step]:
    """Return the steps of the newest attempt.

    A stage that the record does not know yet is ahead while the release is open. It was skipped when the release is
    over, or a later one has begun.

    :param is_rollback: a person's rollback of the version, which has other stages than a release.
    """
    known = {stage.name: stage for stage in state.stages}
    names = [*known] if is_rollback else _names(state, known)
    begun = max((place for place, name in enumerate(names) if name in known), default=-1)
    steps: list[Step] = []
    for place, name in enumerate(names):
        if name == _CANARY and not is_rollback:
            steps += _canary(state, known.get(_CANARY))
        elif name in known:
            steps.append(_stage(known[name], state))
        else:
            steps.append(Step(name, "ahead" if place > begun and _may_come(state) else "skipped"))
    return steps


def _names(state: ReleaseState, known: dict[str, Stage]) -> list[str]:
    """Return the names of stages in their order; one for each variant that is converted, beside the only one."""
    required = state.required
    asked = {_ASKED[before] for before in (() if required is None else required.approvals)}
    if required is not None:
        asked |= {SMOKE_TEST_GATE, MIRROR_GATE} & {*required.gates}
    wanted = {*_BEFORE_TRAFFIC, _CANARY, _PROMOTE, *asked, *known}
    variants = [name for name in known if name.startswith("convert-")]
    if variants:
        wanted.discard("convert")
    else:
        wanted.discard("choose")
    if "choose" in known:
        wanted.add("choose")
    ordered = [name for name in _ORDER if name in wanted]
    others = [name for name in known if name not in _ORDER and name not in variants]
    return [*variants, *ordered, *others]


def _stage(stage: Stage, state: ReleaseState) -> Step:
    found = _STATES.get(stage.outcome, "done")
    if found == "here" and state.outcome != "open":
        found = "failed"  # it was never finished
    return Step(
        stage.name,
        found,
        outcome=stage.outcome,
        reason=stage.reason or "",
        seconds=stage.seconds,
        started_at=stage.started_at,
    )


def _canary(state: ReleaseState, stage: Stage | None) -> list[Step]:
    """Return a step for each weight; where nothing was live before, the stage alone."""
    weights = () if state.required is None else state.required.weights
    results = {one.weight: one for one in state.canary}
    planned = sorted({*weights, *results, *_weight_now(state, results)})
    if not planned:
        if stage is not None:
            return [_stage(stage, state)]
        return [Step(_CANARY, "ahead" if _may_come(state) else "skipped")]
    return [_canary_step(weight, results.get(weight), state, stage) for weight in planned]


def _canary_step(weight: int, result: StepResult | None, state: ReleaseState, stage: Stage | None) -> Step:
    if result is not None:
        return Step(
            _CANARY,
            "done" if result.verdict == "pass" else "failed",
            weight,
            result.verdict,
            result.reason,
            result.seconds,
            candidate_requests=result.candidate_requests,
            candidate_errors=result.candidate_errors,
        )
    if weight == state.intended_weight:
        ended = state.outcome != "open" or state.rolling_back or (stage is not None and stage.outcome in _BAD)
        if ended:
            return Step(_CANARY, "failed", weight, reason=state.reason or "")
        return Step(_CANARY, "here", weight)
    return Step(_CANARY, "ahead" if _may_come(state) else "skipped", weight)


_BAD = ("refused", "failed", "inconclusive", "cancelled")


def _weight_now(state: ReleaseState, results: dict[int, StepResult]) -> set[int]:
    """Return the weight that is intended where no plan is pinned, as old records have none."""
    intended = state.intended_weight
    return {intended} if intended is not None and 0 < intended < 100 and intended not in results else set()


def _may_come(state: ReleaseState) -> bool:
    """Return whether what has not begun may begin yet."""
    ended_badly = any(stage.outcome in _BAD for stage in state.stages)
    return state.outcome == "open" and not state.rolling_back and not ended_badly
