"""How an InferenceService is brought from what is observed to what is wanted: a goal and an observation give the next
action, in whichever dialect the object speaks.

    action = next_action(StartCanary(uri, weight=5), observe(isvc, evidence))

`reconciler.py` has the loop: observe, act, wait, observe again, until `Done` or `Impossible`. Nothing is remembered
between two calls, so a task that died, a duplicate and a guard all go on from what is there. Every patch carries the
resourceVersion it was decided on; a conflict means: observe again. What counts is the traffic observed, never `Ready`
alone.

How each goal is pursued is the dialect's business: `dialects/protocol.py` says what a dialect is, and
`dialects/registry.py` which there are.
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
from slipway_core.rollout.dialects.registry import dialect_named, observe
from slipway_core.rollout.observation import STABLE_URI, Observed

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
    """Return what to do next for `goal`; `observed` is None if the InferenceService does not exist (a 404,
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
        return _roll_back(goal, observed)
    if observed.unreadable:
        return Impossible(
            f"{observed.name} is not as KServe writes it: {', '.join(observed.unreadable)} cannot be read. It was left "
            "as it is; see who wrote it.",
            kind="foreign_change",
        )
    return _forward(goal, observed)


def serving_doubt(observed: Observed) -> str:
    """Return why the version that the spec names is not known to have all users; "" if it is.

    It is asked of an InferenceService without a canary, observed with what lies behind it.
    """
    return dialect_named(observed.dialect).serving_doubt(observed)


def _forward(goal: ShowCandidate | StartCanary | ShiftWeight | Promote, observed: Observed) -> Action:
    dialect = dialect_named(observed.dialect)
    match goal:
        case ShowCandidate():
            return dialect.show_candidate(goal, observed)
        case StartCanary():
            return dialect.start_canary(goal, observed)
        case ShiftWeight():
            return dialect.shift_weight(goal, observed)
        case Promote():
            return dialect.promote(goal, observed)


def _roll_back(goal: RollBack, observed: Observed) -> Action:
    if not goal.stable_uri:
        return Impossible("No earlier good version exists; a first version can only be withdrawn.")
    return dialect_named(observed.dialect).roll_back(goal, observed)


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
        doubt = dialect_named(observed.dialect).first_version_doubt(observed, wanted)
        if not doubt:
            return Done(dict(observed.traffic), reason="The first version has all traffic.")
        return Wait(doubt, "create")
    if observed.failure is not None:
        return Impossible(f"The first version does not come up: {observed.failure}.", kind="load_failed")
    missing = " ".join(observed.obstacles) if observed.candidate_ready else ""
    reason = "Waiting for the first version to come up and get its traffic."
    return Wait(f"{reason} {missing}".rstrip() + observed.traffic_doubt, "create")


def _withdraw(goal: Withdraw, observed: Observed | None) -> Action:
    if observed is None:
        return Done({}, reason="The InferenceService does not exist.")
    if observed.deleting:
        return Wait(f"{observed.name} is being deleted.", "delete")
    if goal.uri and observed.storage_uri != goal.uri:
        return Impossible(
            f"{observed.name} names {observed.storage_uri}, not {goal.uri}, the version to withdraw.",
            kind="foreign_change",
        )
    if observed.has_served_another or observed.annotation(STABLE_URI):
        return Impossible(
            f"{observed.name} has served an earlier version: roll back to it instead of deleting."
        )
    doubt = dialect_named(observed.dialect).withdrawal_doubt(observed)
    if doubt:
        return Wait(f"Waiting to know that no other version was ever served. {doubt}", "delete")
    return Delete(observed.uid, observed.resource_version, "No earlier version exists: withdraw this one.")


def _storage_uri_of(manifest: Mapping[str, Any]) -> str:
    return str(manifest["spec"]["predictor"]["model"]["storageUri"])
