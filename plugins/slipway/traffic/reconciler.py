"""How operators and triggers bring an InferenceService to a goal: the domain's reconciler, carried out by a hook."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.inference_service import KServeHook
from slipway.release_record.fresh_permission import RAISE_LIMIT_S, require_fresh
from slipway.release_run import ReleaseRun
from slipway_core.errors import ClusterUnavailableError, SlipwayError, SpecError, TimedOutError
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.registry import dialect_of, observe, preflight
from slipway_core.rollout.fields import mapping, text
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.next_action import (
    Create,
    Delete,
    Expose,
    FirstDeploy,
    Goal,
    Observed,
    Patch,
)
from slipway_core.rollout.reading import Evidence, Resource
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
    Reconciliation,
    Saw,
    Waited,
)

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.25
# How long KServe's controller may take to note a canary; one that cannot reconcile with it never does.
NOTE_TIMEOUT_S = 60.0


def observe_service(hook: KServeHook, *, behind: bool = False, pods: bool = False) -> Observed | None:
    """Observe the InferenceService, and what its dialect reads besides.

    That is read last: it is never older than the object that a patch then names by its resourceVersion.

    :param behind: whether what the dialect reads only where it is asked for is wanted too.
    :param pods: whether the pods are wanted too, where they may be seen.
    :returns: None where it does not exist.
    """
    service = hook.get()
    if service is None:
        return None
    observed = observe(service, _read(hook, service, behind=behind))
    return replace(observed, pods=hook.starting_pods()) if pods else observed


def _read(hook: KServeHook, service: Mapping[str, Any], *, behind: bool) -> Evidence:
    """Read what the dialect asks for; the first thing that it can do without and cannot be read is the last."""
    dialect, uid = dialect_of(service), text(mapping(service.get("metadata")).get("uid"))
    found: dict[Resource, Sequence[Mapping[str, Any]]] = {}
    for reading in (*dialect.readings(service), *(dialect.extra_readings(service) if behind else ())):
        try:
            found[reading.resource] = hook.read(reading, uid)
        except ClusterUnavailableError as error:
            if reading.is_needed:
                raise
            log.debug("%s", error)
            return Evidence(found, unread=error.in_short())
    return Evidence(found)


def perform(
    hook: KServeHook,
    action: Create | Patch | Expose | Delete | PatchMade,
    permit: Callable[[], None] | None = None,
    limit_s: float | None = None,
    send_by_s: float = math.inf,
) -> bool:
    """Send one action to the cluster.

    :param permit: is asked before a patch, see `reconcile`.
    :param limit_s: when to give the answer to a patch up, see `Act`.
    :param send_by_s: when whoever waits gives it up, by the monotonic clock; what needs a permission is not sent later.
    :returns: False where the object has changed since it was observed.
    :raises SpecError: no canary could ever work on what is to be created.
    :raises TimedOutError: the permission took too long, so that nobody knows whether it still holds.
    """
    match action:
        case Patch():
            _require_permitted(permit, send_by_s)
            return hook.patch(action.body, RAISE_LIMIT_S if permit and limit_s is None else limit_s)
        case Create():
            _require_possible(hook, action)
            _require_permitted(permit, send_by_s)
            return hook.create(action.body)
        case Expose():
            _require_permitted(permit, send_by_s)
            return hook.expose(action.body)
        case PatchMade():
            return hook.patch_made(action)
        case Delete():
            return hook.delete(action.uid, action.resource_version)


def _require_permitted(permit: Callable[[], None] | None, send_by_s: float) -> None:
    """Ask for the permission, if the action needs one; the action is sent right after this."""
    if permit is None:
        return
    require_fresh(permit)
    if time.monotonic() > send_by_s:
        raise TimedOutError(
            "the permission to raise the weight came too late",
            expected="an answer in time",
            found=f"one that came {time.monotonic() - send_by_s:.1f} s late",
            remedy="nothing was sent; it asks again",
        )


def _require_possible(hook: KServeHook, action: Create) -> None:
    """Refuse a first deployment that would not come up, or over which no later release could split traffic.

    The configuration that has a say in the dialect is asked where it may be read; else what is seen later must do.
    """
    dialect = dialect_of(action.body)
    config = hook.config_map(*dialect.config_map) if dialect.asks_config(action.body) else None
    if refused := dialect.refused_pods(action.body, config):
        raise SpecError(
            f"{dialect.name} would refuse the pods of {hook.namespace}/{hook.name}; the InferenceService was not "
            "created",
            expected=f"a predictor whose fields {dialect.name} accepts",
            found=" ".join(refused),
            remedy="turn them on, or remove the keys from the release file",
        )
    problems = preflight(action.body, config=config)
    if problems:
        raise SpecError(
            f"the InferenceService {hook.namespace}/{hook.name} could not have canaries; it was not created",
            expected="a service whose traffic can be split",
            found=" ".join(problems),
            remedy="change the cluster, or `rollout.deployment_mode` in the release file",
        )


def reconcile(
    hook: KServeHook,
    goal: Goal,
    *,
    timeout_s: float,
    on_progress: Callable[[Reconciliation], None] = lambda reconciliation: None,
    permit: Callable[[], None] | None = None,
    while_waiting: Callable[[], None] = lambda: None,
    suffices: Callable[[Reconciliation], bool] | None = None,
    observed: Observed | None = None,
) -> Reconciliation:
    """Bring the InferenceService to a goal, and return what was observed last.

    Safe to call at any time and from any process: each action follows from what is observed alone. An API that does
    not answer is raised at once: Airflow tries the task again.

    :param on_progress: is called with what was done, whenever its reason is a new one.
    :param permit: is asked for each patch anew, after the observation whose resourceVersion the patch names and right
        before it is sent; it raises where the goal may not be pursued any more. Also for what is created.
    :param while_waiting: is called before each further observation.
    :param suffices: whether what is observed is enough, though the goal may not be reached.
    :param observed: what was observed a moment ago; None: observe first.
    :raises CanaryRefusedError: the candidate does not come up.
    :raises CanaryPausedError: `permit` found a pause.
    :raises ReleaseHeldError: `permit` found a freeze, or that no release window is open.
    :raises UserError: the goal cannot be reached from what is there.
    :raises TransientError: the API did not answer.
    :raises TimedOutError: not reached within the limit.
    """
    limits = Limits(
        timeout_s, POLL_INTERVAL_S, outage_s=0.0, unnoted_after_s=min(NOTE_TIMEOUT_S, timeout_s / 2)
    )
    reconciler, reported = _reconciler(hook, goal, limits, suffices), ""

    def tell(reconciliation: Reconciliation | None) -> None:
        nonlocal reported
        if reconciliation is not None and reconciliation.action.reason != reported:
            reported = reconciliation.action.reason
            on_progress(reconciliation)

    def carry_out(step: Observe | Act | Pause) -> Event:
        match step:
            case Observe():
                return Saw(observe_service(hook, behind=step.behind, pods=step.pods))
            case Act():
                return Acted(perform(hook, step.action, permit, step.limit_s))
            case Pause():
                tell(step.after)
                time.sleep(step.seconds)
                if step.after is not None:
                    while_waiting()
                return Waited()

    event: Event = Waited() if observed is None else Saw(observed)
    while True:
        step = reconciler.next(event, time.monotonic())
        match step:
            case Reached():
                tell(step.last)
                return step.last
            case GiveUp():
                tell(step.after)
                raise step.error
        try:
            event = carry_out(step)
        except SlipwayError as error:
            event = Failed(error)


async def _nothing() -> None:
    """Do what most do between two observations."""


async def reconcile_async(
    calls: BlockingCalls,
    hook: KServeHook,
    goal: Goal,
    *,
    timeout_s: float,
    permit: Callable[[], None] | None = None,
    while_waiting: Callable[[], Awaitable[None]] = _nothing,
    suffices: Callable[[Reconciliation], bool] | None = None,
    poll_s: float | None = None,
) -> Reconciliation:
    """Do as `reconcile`, for a triggerer: between two requests it holds no thread.

    Nothing tries a trigger again, so an API that is away, or hangs, is asked until the time is up.

    :param poll_s: between two observations; None: `POLL_INTERVAL_S`.
    :raises CanaryPausedError: `permit` found a pause.
    :raises ReleaseHeldError: `permit` found a freeze, or that no release window is open.
    :raises TimedOutError: not reached within the limit.
    """
    limits = Limits(timeout_s, POLL_INTERVAL_S if poll_s is None else poll_s)
    reconciler = _reconciler(hook, goal, limits, suffices)

    async def carry_out(step: Observe | Act | Pause) -> Event:
        match step:
            case Observe():
                return Saw(await calls.run(lambda: observe_service(hook, behind=step.behind, pods=step.pods)))
            case Act():
                send_by_s = time.monotonic() + calls.limit_s
                return Acted(
                    await calls.run(lambda: perform(hook, step.action, permit, step.limit_s, send_by_s))
                )
            case Pause():
                await asyncio.sleep(step.seconds)
                if step.after is not None:
                    await while_waiting()
                return Waited()

    event: Event = Waited()
    while True:
        step = reconciler.next(event, time.monotonic())
        match step:
            case Reached():
                return step.last
            case GiveUp():
                raise step.error
        try:
            event = await carry_out(step)
        except SlipwayError as error:
            event = Failed(error)


def _reconciler(
    hook: KServeHook, goal: Goal, limits: Limits, suffices: Callable[[Reconciliation], bool] | None
) -> Reconciler:
    name, began_s = f"{hook.namespace}/{hook.name}", time.monotonic()
    return Reconciler(goal, limits, name=name, began_s=began_s, suffices=suffices)


def first_deploy(release_run: ReleaseRun) -> FirstDeploy:
    """Return the goal of a model's first release."""
    return FirstDeploy(
        inference_service_manifest(
            release_run.spec,
            release_run.storage_uri,
            release_id=release_run.release_id,
            version=release_run.version,
        )
    )
