"""How an InferenceService is brought from what is observed to what is wanted: a goal and an observation give the next
action, in whichever of KServe's dialects the object speaks.

    action = next_action(StartCanary(uri, weight=5), observe(isvc, routes))

`reconciler.py` has the loop: observe, act, wait, observe again, until `Done` or `Impossible`. Nothing is remembered
between two calls, so a task that died, a duplicate and a guard all go on from what is there. Every patch carries the
resourceVersion it was decided on; a conflict means: observe again. What counts is the traffic observed, never `Ready`
alone.

Forward lies in `dialects/*/forward.py`, back in `dialects/*/back.py`, what the fields mean in
`observation.py` and `dialects/*/view.py`, and what cannot work at all in `preflight.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.rollout.actions import (
    Action,
    Create,
    Delete,
    Done,
    Expose,
    FirstDeploy,
    Goal,
    Impossible,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    Withdraw,
)
from slipway_core.rollout.dialects.knative import forward as knative
from slipway_core.rollout.dialects.knative.proof import doubt, live_doubt
from slipway_core.rollout.dialects.standard import forward as standard
from slipway_core.rollout.dialects.standard.capacity import incomplete, unproved
from slipway_core.rollout.observation import STABLE_URI, Observed, observe
from slipway_core.rollout.rollback import roll_back

__all__ = [
    "Action",
    "Create",
    "Delete",
    "Done",
    "Expose",
    "FirstDeploy",
    "Goal",
    "Impossible",
    "Observed",
    "Patch",
    "Promote",
    "RollBack",
    "ShiftWeight",
    "ShowCandidate",
    "StartCanary",
    "Wait",
    "Withdraw",
    "next_action",
    "observe",
    "serving_doubt",
]


def next_action(goal: Goal, observed: Observed | None) -> Action:
    """Return what to do next for `goal`; `observed` is None where the InferenceService does not exist (a 404,
    no less).

    "Could not be read" is not None: do not ask without an observation.
    """
    if isinstance(goal, FirstDeploy):
        return _first_deploy(goal, observed)
    if isinstance(goal, Withdraw):
        return _withdraw(goal, observed)
    if observed is None:
        return Impossible("The InferenceService does not exist; deploy a first version.", kind="absent")
    if observed.deleting:
        return Impossible(f"{observed.name} is being deleted by someone else.", kind="foreign_change")
    if isinstance(goal, RollBack):
        return roll_back(goal, observed)
    if observed.unreadable:
        return Impossible(
            f"{observed.name} is not as KServe writes it: {', '.join(observed.unreadable)} cannot be read. It was left "
            "as it is; see who wrote it.",
            kind="foreign_change",
        )
    return _forward(goal, observed)


def serving_doubt(observed: Observed) -> str:
    """Return why the version that the spec names is not known to have all users; "" where it is.

    It is asked of an InferenceService without a canary, observed with what lies behind it.
    """
    view = observed.standard
    if view is None:
        return live_doubt(observed, observed.storage_uri)
    found = unproved(view, view.stable_backend, view.stable_uri)
    return found or ("" if observed.alone(view.stable_backend) else "It is not seen to have all the traffic.")


def _forward(goal: ShowCandidate | StartCanary | ShiftWeight | Promote, observed: Observed) -> Action:
    view = observed.standard
    match goal:
        case ShowCandidate():
            if view is None:
                return knative.show_candidate(goal, observed)
            return standard.show_candidate(goal, observed, view)
        case StartCanary():
            if view is None:
                return knative.start_canary(goal, observed)
            return standard.start_canary(goal, observed, view)
        case ShiftWeight():
            if view is None:
                return knative.shift_weight(goal, observed)
            return standard.shift_weight(goal, observed, view)
        case Promote():
            if view is None:
                return knative.promote(goal, observed)
            return standard.promote(goal, observed, view)


# --- first deployment, and taking it back ---


def _first_deploy(goal: FirstDeploy, observed: Observed | None) -> Action:
    if observed is None:
        return Create(dict(goal.manifest), "No version is live yet: create the InferenceService.")
    if observed.deleting:
        return Wait(f"{observed.name} is still being deleted.", "create")
    wanted = _storage_uri_of(goal.manifest)
    if observed.storage_uri != wanted:
        return Impossible(
            f"{observed.name} exists already and names {observed.storage_uri}, not {wanted}. "
            "Release this version as a canary over what is live.",
            kind="foreign_change",
        )
    if observed.candidate_ready and observed.alone(observed.latest_ready):
        view = observed.standard
        short = live_doubt(observed, wanted) if view is None else incomplete(view, wanted)
        if not short:
            return Done(dict(observed.traffic), reason="The first version has all traffic.")
        what = "what the first version's pods serve" if view is None else "all pods of the first version"
        return Wait(f"Waiting for {what}: {short}", "create")
    if observed.failure is not None:
        return Impossible(f"The first version does not come up: {observed.failure}.", kind="load_failed")
    missing = " ".join(observed.obstacles) if observed.candidate_ready else ""
    reason = "Waiting for the first version to come up and get its traffic."
    return Wait(f"{reason} {missing}".rstrip() + observed.traffic_doubt, "create")


def _withdraw(goal: Withdraw, observed: Observed | None) -> Action:
    if observed is None:
        return Done({}, reason="There is no InferenceService.")
    if observed.deleting:
        return Wait(f"{observed.name} is being deleted.", "delete")
    if goal.uri and observed.storage_uri != goal.uri:
        return Impossible(
            f"{observed.name} names {observed.storage_uri}, not {goal.uri}, the version to withdraw.",
            kind="foreign_change",
        )
    served = {observed.serves(name) for name in observed.named_revisions} - {"", observed.storage_uri}
    if observed.previous_rolledout or observed.annotation(STABLE_URI) or served:
        return Impossible(
            f"{observed.name} has served an earlier version: roll back to it instead of deleting."
        )
    if observed.standard is None and observed.latest_ready and observed.generation != 1:
        # The spec was changed, and the status may be about the version before.
        found = doubt(observed, observed.storage_uri)
        if found:
            return Wait(f"Waiting to know that no other version was ever served. {found}", "delete")
    return Delete(observed.uid, observed.resource_version, "No earlier version exists: withdraw this one.")


def _storage_uri_of(manifest: Mapping[str, Any]) -> str:
    return str(manifest["spec"]["predictor"]["model"]["storageUri"])
