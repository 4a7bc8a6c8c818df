"""Forward in KServe's Knative dialect: a canary is `spec.predictor.canaryTrafficPercent` over a new storageUri.

"Latest" in Knative's traffic means latest *ready*, and the percent is ignored until some revision was rolled
out. So the new storageUri and the first percent go in one patch, and only over one settled revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.rollout.actions import (
    Action,
    Done,
    Impossible,
    Patch,
    Promote,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    refuse_forward,
    refuse_preview,
    refuse_raise,
    refuse_start,
    refuse_weight,
)
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.dialects.knative.proof import doubt, live_doubt
from slipway_core.rollout.fields import (
    CANDIDATE_URI,
    FIELD_MANAGER,
    PREVIEW_GENERATION,
    RELEASE,
    REPLACED_REVISION,
    RESTORED_AT,
    ROLLED_BACK_URI,
    STABLE_REVISION,
    STABLE_URI,
    STABLE_VERSION,
    TAG_ROUTING,
    TRANSFORMER,
    VERSION,
)


def predictor_patch(
    observed: KnativeObserved,
    *,
    percent: int | None,
    storage_uri: str | None = None,
    annotations: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """Return a merge patch that sets the percent (None removes it) and, if given, storageUri and annotations
    (None removes).

    It carries the resourceVersion that was observed: an answer to any other state is refused by the API
    (409).
    """
    metadata: dict[str, Any] = {"resourceVersion": observed.resource_version}
    predictor: dict[str, Any] = {"canaryTrafficPercent": percent}
    if storage_uri is not None:
        predictor["model"] = {"storageUri": storage_uri}
    if annotations:
        if storage_uri is None:
            raise ValueError(
                "annotations alone would make a new revision: patch them with the storageUri only"
            )
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": {"predictor": predictor}}


def start_canary(goal: StartCanary, observed: KnativeObserved) -> Action:
    """Return the next action towards a canary of `goal.uri` at its weight."""
    refusal = refuse_weight(goal.weight)
    if refusal is not None:
        return refusal
    if observed.storage_uri == goal.uri:
        return _canary_is_named(goal, observed)
    hindrance = _cannot_begin(goal, observed)
    if hindrance is not None:
        return hindrance
    return Patch(
        _beginning(goal, observed, goal.weight), f"Start a canary of {goal.uri} at {goal.weight} %.", "canary"
    )


def show_candidate(goal: ShowCandidate, observed: KnativeObserved) -> Action:
    """Return the next action towards a preview of `goal.uri`: a revision that answers at its own address alone."""
    if observed.storage_uri != goal.uri:
        hindrance = _cannot_begin(goal, observed)
        if hindrance is not None:
            return hindrance
        return Patch(_beginning(goal, observed, 0), f"Bring {goal.uri} up at 0 %, for a preview.", "preview")
    if observed.canary_percent is None:
        return _is_live_already(goal.uri, observed)
    stable = observed.stable_revision
    pending = (
        refuse_preview(observed)
        or _candidate_pending(observed, stable)
        or _unproved(observed, goal.uri, "preview")
    )
    if pending is not None:
        return pending
    if observed.candidate_url and observed.alone(stable):
        return Done(
            dict(observed.traffic), reason=f"The candidate answers at {observed.candidate_url} alone."
        )
    return Wait(f"Waiting for the candidate's own address.{observed.traffic_doubt}", "preview")


def _cannot_begin(goal: StartCanary | ShowCandidate, observed: KnativeObserved) -> Action | None:
    """Return why no candidate can be brought up over what is there, or not yet."""
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
    return refuse_start(goal, observed) or _unsettled(observed)


def _beginning(goal: StartCanary | ShowCandidate, observed: KnativeObserved, percent: int) -> dict[str, Any]:
    """Return the patch that names the candidate, with what must be known of stable later.

    The resourceVersion that it carries makes the next generation certain.
    """
    notes: dict[str, str | None] = {
        RELEASE: goal.release_id or None,
        VERSION: None if goal.version is None else str(goal.version),
        CANDIDATE_URI: goal.uri,
        STABLE_URI: observed.storage_uri,
        STABLE_VERSION: observed.annotation(VERSION) or None,
        STABLE_REVISION: observed.latest_rolledout,
        REPLACED_REVISION: None,
        ROLLED_BACK_URI: None,
        PREVIEW_GENERATION: None if percent else str(observed.generation + 1),
        TRANSFORMER: observed.transformer,
        TAG_ROUTING: "true",
    }
    body = predictor_patch(observed, percent=percent, storage_uri=goal.uri, annotations=notes)
    if observed.restored_at:
        body["spec"]["predictor"]["annotations"] = {RESTORED_AT: None}
    return body


def _unsettled(observed: KnativeObserved) -> Action | None:
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
            return Wait("Waiting for the named version to become ready.", "settle")
        return Impossible(
            f"The version that {observed.name} names does not run ({observed.failure}); "
            "another version is live. Repair or roll back first.",
            kind="load_failed",
        )
    found = live_doubt(observed, observed.storage_uri)
    if not found:
        return None
    return Wait(
        f"Waiting for the stable version to have all traffic. {found}{observed.traffic_doubt}", "settle"
    )


def _canary_is_named(goal: StartCanary, observed: KnativeObserved) -> Action:
    if observed.canary_percent is None:
        return _is_live_already(goal.uri, observed)
    if observed.canary_percent == 0:
        return refuse_raise(goal, observed) or _to_weight(goal.weight, observed)
    return shift_weight(ShiftWeight(goal.weight, goal.uri), observed)


def _is_live_already(uri: str, observed: KnativeObserved) -> Impossible:
    return Impossible(
        f"{uri} is what {observed.name} serves already. The same storageUri makes no new "
        "revision, and a percent would send users to the version before it."
    )


def shift_weight(goal: ShiftWeight, observed: KnativeObserved) -> Action:
    """Return the next action towards the weight."""
    refusal = refuse_weight(goal.weight) or _no_canary(goal.uri, observed)
    return refusal or _to_weight(goal.weight, observed)


def _to_weight(weight: int, observed: KnativeObserved) -> Action:
    """Return the next action towards the weight, for a candidate that may have it."""
    stable = observed.stable_revision
    pending = _candidate_pending(observed, stable)
    if pending is not None:
        return pending
    is_raise = observed.canary_percent is not None and observed.canary_percent <= weight
    unproved = _unproved(observed, observed.storage_uri, "canary") if is_raise else None
    if unproved is not None:
        return unproved
    if observed.canary_percent != weight:
        body = predictor_patch(observed, percent=weight)
        return Patch(body, f"Shift the canary from {observed.canary_percent} to {weight} %.", "canary")
    if observed.is_split({observed.latest_created: weight, stable: 100 - weight}):
        return Done(dict(observed.traffic), reason=f"The candidate has {weight} % of the traffic.")
    return Wait(f"Waiting to see {weight} % on the candidate.{observed.traffic_doubt}", "canary")


def promote(goal: Promote, observed: KnativeObserved) -> Action:
    """Return the next action towards all traffic on the candidate."""
    uri = goal.uri or observed.annotation(CANDIDATE_URI)
    if observed.canary_percent is None:
        return _await_promotion(uri, observed)
    refusal = _no_canary(goal.uri, observed)
    if refusal is not None:
        return refusal
    pending = _candidate_pending(observed, observed.stable_revision) or _unproved(
        observed, observed.storage_uri, "promote"
    )
    if pending is not None:
        return pending
    return Patch(predictor_patch(observed, percent=None), "Give the candidate all traffic.", "promote")


def _await_promotion(uri: str, observed: KnativeObserved) -> Action:
    if not uri or observed.storage_uri != uri:
        return Impossible(f"No canary of {uri or 'any version'} is under way on {observed.name}.")
    found = live_doubt(observed, uri)
    if not found:
        return Done(dict(observed.traffic), reason="The candidate has all traffic.")
    return Wait(
        f"Waiting to see all traffic on the candidate. {found}{observed.traffic_doubt}",
        "promote",
        failure=observed.failure,
    )


# --- what stands in the way ---


def _no_canary(uri: str, observed: KnativeObserved) -> Impossible | None:
    """Return why forward steps are out of the question; percent 0 means that a rollback was decided, or a preview."""
    if uri and observed.storage_uri != uri:
        return Impossible(
            f"{observed.name} names {observed.storage_uri}, not {uri}: rolled back, or changed by others.",
            kind="foreign_change",
        )
    if observed.canary_percent is None:
        return Impossible(f"No canary is under way on {observed.name}.")
    return refuse_forward(observed)


def _candidate_pending(observed: KnativeObserved, stable: str) -> Action | None:
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


def _unproved(observed: KnativeObserved, uri: str, phase: str) -> Action | None:
    """Return what keeps the newest revision from being known as the one that the spec names; None: it is known.

    Where somebody has named another version and this one again, KServe may still hold that other one.
    """
    if observed.named_by not in ("", FIELD_MANAGER):
        return Impossible(
            f"{observed.named_by} has changed the storageUri of {observed.name} since the canary began, though it "
            f"names {uri} now. It was left as it is: see who did it, and release again.",
            kind="foreign_change",
        )
    found = doubt(observed, uri)
    return Wait(f"Waiting to know what the newest revision serves. {found}", phase) if found else None
