"""How an InferenceService is brought from what is observed to what is wanted: a goal and an observation give the next
action, in whichever of KServe's dialects the object speaks.

    action = next_action(StartCanary(uri, weight=5), observe(isvc, routes))

`reconciler.py` has the loop: observe, act, wait, observe again, until `Done` or `Impossible`. Nothing is remembered
between two calls, so a task that died, a duplicate and a guard all go on from what is there. Every patch carries the
resourceVersion it was decided on; a conflict means: observe again. What counts is the traffic observed, never `Ready`
alone.

Forward lies in `knative/forward.py` and `standard/forward.py`, back in their `back.py`, what the fields mean in
`observation.py` and `standard/view.py`, and what cannot work at all in `preflight.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.rollout.actions import (
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
from include.model_release.rollout.knative import forward as knative
from include.model_release.rollout.knative.proof import live_doubt
from include.model_release.rollout.observation import STABLE_URI, Observed, observe
from include.model_release.rollout.rollback import roll_back
from include.model_release.rollout.standard import forward as standard
from include.model_release.rollout.standard.capacity import incomplete

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
    if observed.previous_rolledout or observed.annotation(STABLE_URI):
        return Impossible(
            f"{observed.name} has served an earlier version: roll back to it instead of deleting."
        )
    return Delete(observed.uid, observed.resource_version, "No earlier version exists: withdraw this one.")


def _storage_uri_of(manifest: Mapping[str, Any]) -> str:
    return str(manifest["spec"]["predictor"]["model"]["storageUri"])
