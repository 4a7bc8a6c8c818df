"""Carries a rollout's goal out: look, do the one next thing, look again. The domain decides what the next thing is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from include.model_release.errors import (
    AlreadyReleasedError,
    CanaryPausedError,
    CanaryRefusedError,
    ForeignChangeError,
    SlipwayError,
    SpecError,
    TimedOutError,
    TransientError,
)
from include.model_release.rollout.fields import deployment_mode
from include.model_release.rollout.inference_service import inference_service_manifest
from include.model_release.rollout.next_action import (
    Action,
    Create,
    Delete,
    Done,
    Expose,
    FirstDeploy,
    Goal,
    Impossible,
    Observed,
    Patch,
    RollBack,
    next_action,
    observe,
)
from include.model_release.rollout.preflight import preflight
from slipway.hooks.inference_service import KServeHook
from slipway.lanes import Lane
from slipway.release_run import ReleaseRun

POLL_INTERVAL_S = 0.25
# How long KServe's controller may take to note a canary; one that cannot reconcile with it never does.
NOTE_TIMEOUT_S = 60.0

_ERRORS: dict[str, type[SlipwayError]] = {
    "load_failed": CanaryRefusedError,
    "rolled_back": AlreadyReleasedError,
}


@dataclass(frozen=True)
class Turn:
    """What was seen of the InferenceService (None: it does not exist) and what was then done."""

    observed: Observed | None
    action: Action


def look(hook: KServeHook) -> Observed | None:
    """Reads the InferenceService and, where its dialect keeps the traffic there, its HTTPRoutes.

    None where it does not exist. The routes are read last: they are never older than the object that a patch
    then names by its resourceVersion.
    """
    service = hook.get()
    if service is None:
        return None
    return observe(service, hook.routes() if deployment_mode(service) == "Standard" else ())


def take_turn(
    hook: KServeHook,
    goal: Goal,
    permit: Callable[[], None] | None = None,
    enough: Callable[[Observed | None], bool] = lambda observed: False,
    observed: Observed | None = None,
) -> Turn:
    """Looks and does the next thing towards the goal, which may be to wait.

    Safe to call at any time and from any process: the action follows from what is observed alone. A patch that
    meets a conflict is dropped; the next turn looks anew.

    :param permit: is asked after the look and before a patch; it raises where the goal may not be pursued any more.
        Because the patch names the resourceVersion that was seen before, what happens after the asking is a conflict.
    :param enough: whether what is seen suffices the caller; then nothing is done.
    :param observed: what was seen a moment ago; None: look first.
    :raises CanaryRefusedError: the candidate does not come up.
    :raises SpecError: no canary could ever work on what is to be created.
    :raises UserError: the goal cannot be reached from what is there; nothing was changed.
    """
    observed = look(hook) if observed is None else observed
    action = next_action(goal, observed)
    if enough(observed):
        return Turn(observed, action)
    match action:
        case Patch():
            if permit is not None:
                permit()
            hook.patch(action.body)
        case Create():
            _require_possible(hook, action)
            hook.create(action.body)
        case Expose():
            hook.expose(action.body)
        case Delete():
            hook.delete(action.uid, action.resource_version)
        case Impossible():
            raise _ERRORS.get(action.kind, ForeignChangeError)(
                f"the InferenceService {hook.namespace}/{hook.name} cannot be brought to {type(goal).__name__}",
                found=action.reason,
                remedy="look at the InferenceService; nothing was changed by this step",
            )
    return Turn(observed, action)


def _require_possible(hook: KServeHook, action: Create) -> None:
    """Refuses a first deployment over which no later release could split traffic, before it is made.

    KServe's own configuration is asked where it may be read; else what is seen later must do.
    """
    config = hook.cluster_config() if deployment_mode(action.body) == "Standard" else None
    problems = preflight(action.body, config=config)
    if problems:
        raise SpecError(
            f"the InferenceService {hook.namespace}/{hook.name} would be one without canaries; it was not created",
            expected="a service on which traffic can be split",
            found=" ".join(problems),
            remedy="change the cluster, or `rollout.deployment_mode` in the release file",
        )


def drive(
    hook: KServeHook,
    goal: Goal,
    *,
    timeout_s: float,
    on_turn: Callable[[Turn], None] = lambda turn: None,
    permit: Callable[[], None] | None = None,
    while_waiting: Callable[[], None] = lambda: None,
    observed: Observed | None = None,
) -> Turn:
    """Takes turns until the goal is reached, and returns the last one.

    :param on_turn: is told of each turn whose reason is a new one.
    :param permit: see `take_turn`.
    :param while_waiting: is called after each turn that did not reach the goal.
    :param observed: what was seen a moment ago, for the first turn; None: look first.
    :raises TimedOutError: not reached within the limit.
    """
    began, told = time.monotonic(), ""
    deadline = began + timeout_s
    noted_by = began + min(NOTE_TIMEOUT_S, timeout_s / 2)
    while True:
        if isinstance(goal, RollBack) and time.monotonic() > noted_by:
            goal = replace(goal, unnoted_may_go=True)
        turn = take_turn(hook, goal, permit, observed=observed)
        observed = None
        if turn.action.reason != told:
            told = turn.action.reason
            on_turn(turn)
        if isinstance(turn.action, Done):
            return turn
        if time.monotonic() > deadline:
            raise timed_out(hook, goal, timeout_s, told)
        while_waiting()
        time.sleep(POLL_INTERVAL_S)


def is_done(turn: Turn) -> bool:
    """Whether the goal is reached."""
    return isinstance(turn.action, Done)


async def _nothing() -> None:
    """What most do between two turns."""


async def drive_in_lane(
    lane: Lane,
    hook: KServeHook,
    goal: Goal,
    *,
    timeout_s: float,
    reached: Callable[[Turn], bool] = is_done,
    permit: Callable[[], None] | None = None,
    enough: Callable[[Observed | None], bool] = lambda observed: False,
    while_waiting: Callable[[], Awaitable[None]] = _nothing,
    poll_s: float | None = None,
) -> Turn:
    """Takes turns until one is as wanted, and returns that one. For a triggerer: between two turns it holds no thread.

    An API that is away, or hangs, is asked again until the time is up.

    :param permit: see `take_turn`, and so `enough`.
    :param while_waiting: is awaited after each turn that was not as wanted.
    :param poll_s: between two turns; None: `POLL_INTERVAL_S`.
    :raises CanaryPausedError: `permit` found a pause.
    :raises TimedOutError: not reached within the limit.
    """
    deadline, found = time.monotonic() + timeout_s, "no answer"
    while time.monotonic() < deadline:
        try:
            turn = await lane.run(lambda: take_turn(hook, goal, permit, enough))
        except CanaryPausedError:
            raise
        except TransientError as error:
            found = error.in_short()
        else:
            if reached(turn):
                return turn
            found = turn.action.reason
            await while_waiting()
        await asyncio.sleep(POLL_INTERVAL_S if poll_s is None else poll_s)
    raise timed_out(hook, goal, timeout_s, found)


def first_deploy(release_run: ReleaseRun) -> FirstDeploy:
    """The goal of a model's first release."""
    return FirstDeploy(
        inference_service_manifest(
            release_run.spec,
            release_run.storage_uri,
            release_id=release_run.release_id,
            version=release_run.version,
        )
    )


def timed_out(hook: KServeHook, goal: Goal, timeout_s: float, found: str) -> TimedOutError:
    """What is raised when a goal is not reached in time."""
    return TimedOutError(
        f"the InferenceService {hook.namespace}/{hook.name} was not brought to {type(goal).__name__} in time",
        expected=f"within {timeout_s:.0f} s",
        found=found,
        remedy="look at the revision's pods and at the controller's log",
    )
