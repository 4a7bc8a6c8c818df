"""Knative's dialect of KServe as pure transitions: a goal and what was observed give the next action.

    action = next_action(StartCanary(uri, weight=5), observe(isvc))

The caller performs the action (one merge patch, a wait, ...), observes again and asks again until `Done` or
`Impossible`. Nothing is remembered between two calls, so a task that died, a duplicate and a guard all go on
from what is there. Every patch carries the resourceVersion it was decided on; a conflict means: observe
again. What counts is the traffic observed, never `Ready` alone. Going back lies in `rollback.py`, and what
the status fields mean in `isvc_observation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.inference_service import inference_service_manifest
from include.model_release.isvc_observation import (
    CANDIDATE_URI,
    RELEASE,
    REPLACED_REVISION,
    ROLLED_BACK_URI,
    STABLE_REVISION,
    STABLE_URI,
    STABLE_VERSION,
    VERSION,
    Observed,
    observe,
)
from include.model_release.rollback import roll_back
from include.model_release.rollout_actions import (
    Action,
    Create,
    Delete,
    Done,
    FirstDeploy,
    Goal,
    Impossible,
    Patch,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
    Wait,
    Withdraw,
    predictor_patch,
)

__all__ = [
    "Action",
    "Create",
    "Delete",
    "Done",
    "FirstDeploy",
    "Goal",
    "Impossible",
    "Observed",
    "Patch",
    "Promote",
    "RollBack",
    "ShiftWeight",
    "StartCanary",
    "Wait",
    "Withdraw",
    "inference_service_manifest",
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
    if isinstance(goal, StartCanary):
        return _start_canary(goal, observed)
    if isinstance(goal, ShiftWeight):
        return _shift_weight(goal, observed)
    return _promote(goal, observed)


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
        return Done(dict(observed.traffic), reason="The first version has all traffic.")
    if observed.failure is not None:
        return Impossible(f"The first version does not come up: {observed.failure}.", kind="load_failed")
    return Wait("Waiting for the first version to come up and get its traffic.", "create")


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


# --- forward ---


def _start_canary(goal: StartCanary, observed: Observed) -> Action:
    refusal = _weight_refusal(goal.weight)
    if refusal is not None:
        return refusal
    if observed.storage_uri == goal.uri:
        return _canary_is_named(goal, observed)
    if observed.annotation(ROLLED_BACK_URI) == goal.uri and not goal.force:
        return Impossible(
            f"{goal.uri} was rolled back before. Release a new version, or force this one.",
            kind="rolled_back",
        )
    if observed.canary_percent is not None:
        whose = observed.annotation(RELEASE) or "unknown"
        return Impossible(
            f"Another canary or rollback is under way on {observed.name} ({observed.canary_percent} % to "
            f"{observed.storage_uri}, release {whose}). Finish or roll back that one first.",
            kind="foreign_change",
        )
    unsettled = _unsettled(observed)
    if unsettled is not None:
        return unsettled
    notes: dict[str, str | None] = {
        RELEASE: goal.release_id or None,
        VERSION: None if goal.version is None else str(goal.version),
        CANDIDATE_URI: goal.uri,
        STABLE_URI: observed.storage_uri,
        STABLE_VERSION: observed.annotation(VERSION) or None,
        STABLE_REVISION: observed.latest_rolledout,
        REPLACED_REVISION: None,
        ROLLED_BACK_URI: None,
    }
    body = predictor_patch(observed, percent=goal.weight, storage_uri=goal.uri, annotations=notes)
    return Patch(body, f"Start a canary of {goal.uri} at {goal.weight} %.", "canary")


def _unsettled(observed: Observed) -> Action | None:
    """Return why no canary can start yet: stable must be one revision, ready, with all traffic, and known as
    rolled out.
    """
    if not observed.latest_rolledout and not observed.candidate_ready:
        return Impossible(
            f"No version of {observed.name} was ever rolled out; KServe would ignore the percent "
            "and give the candidate everything. Bring up a first version."
        )
    if not observed.candidate_ready:
        if observed.failure is None:
            return Wait("Waiting for the version that is named to come up.", "settle")
        return Impossible(
            f"The version that {observed.name} names does not run ({observed.failure}); "
            "what is live is another one. Repair or roll back first.",
            kind="load_failed",
        )
    settled = observed.latest_rolledout == observed.latest_created and observed.alone(observed.latest_created)
    return None if settled else Wait("Waiting for the stable version to have all traffic.", "settle")


def _canary_is_named(goal: StartCanary, observed: Observed) -> Action:
    if observed.canary_percent is None:
        return Impossible(
            f"{goal.uri} is what {observed.name} serves already. The same storageUri makes no new "
            "revision, and a percent would send users to the version before it."
        )
    return _shift_weight(ShiftWeight(goal.weight, goal.uri), observed)


def _shift_weight(goal: ShiftWeight, observed: Observed) -> Action:
    refusal = _weight_refusal(goal.weight) or _no_canary(goal.uri, observed)
    if refusal is not None:
        return refusal
    stable = observed.annotation(STABLE_REVISION) or observed.latest_rolledout
    pending = _candidate_pending(observed, stable)
    if pending is not None:
        return pending
    if observed.canary_percent != goal.weight:
        body = predictor_patch(observed, percent=goal.weight)
        return Patch(body, f"Shift the canary from {observed.canary_percent} to {goal.weight} %.", "canary")
    wanted = {observed.latest_created: goal.weight, stable: 100 - goal.weight}
    seen = {revision: percent for revision, percent in observed.traffic.items() if percent > 0}
    if seen == wanted:
        return Done(dict(observed.traffic), reason=f"The candidate has {goal.weight} % of the traffic.")
    return Wait(f"Waiting to see {goal.weight} % on the candidate.", "canary")


def _promote(goal: Promote, observed: Observed) -> Action:
    uri = goal.uri or observed.annotation(CANDIDATE_URI)
    if observed.canary_percent is None:
        return _await_promotion(uri, observed)
    refusal = _no_canary(goal.uri, observed)
    if refusal is not None:
        return refusal
    pending = _candidate_pending(observed, observed.annotation(STABLE_REVISION) or observed.latest_rolledout)
    if pending is not None:
        return pending
    return Patch(predictor_patch(observed, percent=None), "Give the candidate all traffic.", "promote")


def _await_promotion(uri: str, observed: Observed) -> Action:
    if not uri or observed.storage_uri != uri:
        return Impossible(f"No canary of {uri or 'any version'} is under way on {observed.name}.")
    latest = observed.latest_created
    promoted = observed.candidate_ready and latest != observed.annotation(STABLE_REVISION)
    if promoted and observed.alone(latest) and observed.latest_rolledout == latest:
        return Done(dict(observed.traffic), reason="The candidate has all traffic.")
    return Wait("Waiting to see all traffic on the candidate.", "promote", failure=observed.failure)


# --- what stands in the way ---


def _weight_refusal(weight: int) -> Impossible | None:
    if 1 <= weight <= 99:
        return None
    return Impossible(
        f"A canary's weight is 1 to 99 percent, not {weight}; 0 is a rollback and 100 a promotion."
    )


def _no_canary(uri: str, observed: Observed) -> Impossible | None:
    """Return why forward steps are out of the question; percent 0 means that a rollback was decided."""
    if uri and observed.storage_uri != uri:
        return Impossible(
            f"{observed.name} names {observed.storage_uri}, not {uri}: rolled back, or changed by others.",
            kind="foreign_change",
        )
    if observed.canary_percent is None:
        return Impossible(f"No canary is under way on {observed.name}.")
    if observed.canary_percent == 0:
        return Impossible(f"The canary on {observed.name} is being rolled back.", kind="rolled_back")
    return None


def _candidate_pending(observed: Observed, stable: str) -> Action | None:
    """Return why the candidate cannot take traffic yet; None when its revision exists and answers."""
    if observed.latest_created in ("", stable):
        if observed.invalid_spec:
            return Impossible(f"KServe refuses the candidate: {observed.failure}.", kind="load_failed")
        return Wait("Waiting for the candidate's revision to be created.", "canary")
    if observed.candidate_ready:
        return None
    if observed.failure is not None:
        return Impossible(f"The candidate does not come up: {observed.failure}.", kind="load_failed")
    return Wait("Waiting for the candidate to come up.", "canary")


def _storage_uri_of(manifest: Mapping[str, Any]) -> str:
    return str(manifest["spec"]["predictor"]["model"]["storageUri"])
