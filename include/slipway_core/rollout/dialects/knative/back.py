"""Back to the good version, in KServe's Knative dialect, without ever sending the bad one more users.

The obvious patch (old storageUri, percent dropped) sends *everyone* to the bad revision while the good one
boots, because "latest" means latest ready. So it takes four phases, and which one is due is read from the
object alone, so that any task, guard or person can go on where another stopped:

    1  shield    percent 0, nothing else; then wait until the traffic shows it. Users are safe from here on.
    2  restore   the good storageUri, percent still 0, in one patch. A new good revision begins to boot.
    3  boot      wait until that revision, and no other, is the latest ready one.
    4  release   remove the percent: all traffic to the new revision; then wait until the traffic shows it.

Percent 0 is never a weight of a canary with users, so it marks a rollback under way, and forward goals refuse to
act on it. The one exception is a preview, which notes the generation of the object that its own patch made: what
comes after phase 1 or 2 has another. A preview is at percent 0 already, so its rollback begins with phase 2.

Phases 3 and 4 believe no status, which may be older than the spec (`proof.py`). Phase 2 notes the generation that it
makes in the predictor's annotations, which reach the revision: the latest ready revision must carry that note, and
nobody may have changed the spec since. Where somebody has, or has named the good version himself, it is named once
more at the same percent. What cannot be read proves nothing, and then the percent stays at 0.

"The traffic shows it" means that Knative's route is ready with it: until then it is what Knative intends, and users
may be anywhere. With a dead ingress a rollback therefore stays in phase 1 and says why. A status that never tells of
the route's readiness does not delay the phases, which follow the intended traffic. But then users are never reported
as safe, and the rollback never completes.

The API asks KServe's webhooks before it changes an InferenceService, and KServe carries the percent on to the Knative
Service. Where KServe hangs, phase 1 therefore writes that one's traffic itself (`traffic.py`), and does nothing else:
users are safe then as long as KServe hangs, and for good when percent 0 is in the spec. Only then is that reported.

Where the bad version already has everything (it was promoted), percent 0 leads to the revision rolled out
before it. That is done only if it is known to be the one to go back to; otherwise the good version is rolled
forward over the bad one, which keeps what it has until the good one answers, because Knative leaves no other
way.
"""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.actions import (
    BOOT,
    RELEASE_TRAFFIC,
    RESTORE,
    SHIELD,
    Action,
    Done,
    Impossible,
    Patch,
    RollBack,
    Wait,
)
from slipway_core.rollout.dialects.knative.forward import predictor_patch
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.dialects.knative.proof import (
    doubt,
    is_named_by_the_rollback,
    is_of_the_rollback,
    live_doubt,
)
from slipway_core.rollout.dialects.knative.traffic import leading_back
from slipway_core.rollout.fields import (
    CANDIDATE_URI,
    PREVIEW_GENERATION,
    REPLACED_REVISION,
    RESTORED_AT,
    ROLLED_BACK_URI,
    STABLE_REVISION,
    STABLE_URI,
    STABLE_VERSION,
    VERSION,
)


def roll_back(goal: RollBack, observed: KnativeObserved) -> Action:
    """Return the next action on the way back to `goal.stable_uri`."""
    if goal.candidate_uri and observed.storage_uri not in (goal.stable_uri, goal.candidate_uri):
        return Impossible(
            f"Someone else changed {observed.name}: it names {observed.storage_uri}, neither the candidate "
            f"{goal.candidate_uri} nor the stable {goal.stable_uri}. It was left as it is; decide by hand.",
            kind="foreign_change",
        )
    if observed.storage_uri == goal.stable_uri:
        return _good_is_named(goal, observed)
    return _bad_is_named(goal, observed)


def safe_revision(goal: RollBack, observed: KnativeObserved) -> str:
    """Return the running revision of the good version: the one noted when the canary began, else the rolled
    out one.

    "" if none is known, which is so after a promotion that nothing was noted about.
    """
    if noted := _noted(goal, observed):
        return noted
    rest = observed.latest_rolledout
    if observed.canary_percent is not None and rest != observed.latest_created:
        return rest if observed.serves(rest) in ("", goal.stable_uri) else ""
    return ""


def _noted(goal: RollBack, observed: KnativeObserved) -> str:
    """Return the revision of the good version that was noted when the canary began; "" if none was, or where it is
    known to serve another one.
    """
    if observed.annotation(STABLE_URI) != goal.stable_uri:
        return ""
    noted = observed.annotation(STABLE_REVISION)
    return noted if observed.serves(noted) in ("", goal.stable_uri) else ""


# --- phases 1 and 2: the spec still names the bad version ---


def _bad_is_named(goal: RollBack, observed: KnativeObserved) -> Action:
    if not observed.latest_rolledout and not observed.latest_ready:
        return Impossible(
            f"{observed.name} never served a version before this one, so there is none to go back to. "
            "Withdraw it, or fix the model and release it again."
        )
    safe = safe_revision(goal, observed)
    if observed.canary_percent != 0:
        if _shield_works(observed, safe):
            return _patch_shield(observed, safe)
        return _patch_restore(goal, observed, percent=None)
    away = leading_back(observed, safe, SHIELD)
    if _canary_may_still_appear(observed, safe):
        return Wait(
            "Waiting for the controller to take note of the canary before it is replaced."
            + observed.traffic_doubt,
            SHIELD,
            users_safe=_is_seen_on(observed, safe),
            fallback=away,
        )
    if _is_shielded(observed, safe) or _shield_is_futile(observed, safe):
        return _patch_restore(goal, observed, percent=0)
    return Wait(
        f"Percent 0 is set; waiting to see all traffic on the good revision.{observed.traffic_doubt}",
        SHIELD,
        fallback=away,
    )


def _is_seen_on(observed: KnativeObserved, safe: str) -> bool:
    """Return whether all users were seen on the good revision, and stay there.

    Right after a promotion KServe may still have the rest lead to the bad revision, which it has just rolled out, and
    set that back only then: the traffic shows the good one, the bad one, and the good one again.
    """
    return observed.alone(safe) and observed.latest_rolledout == safe


def _is_shielded(observed: KnativeObserved, safe: str) -> bool:
    """Return whether all users were seen on the good revision, or shall be where nobody will ever see it."""
    is_intended = observed.is_intended_alone(safe) and observed.latest_rolledout == safe
    return _is_seen_on(observed, safe) or (not observed.route_reported and is_intended)


def _shield_works(observed: KnativeObserved, safe: str) -> bool:
    """Return whether percent 0 can lead users to the good revision.

    In a canary the rest goes to the rolled out revision. After a promotion percent 0 leads to the one rolled
    out before.
    """
    if observed.canary_percent not in (None, 100):
        return True
    is_still_canary = observed.canary_percent == 100 and observed.latest_rolledout == safe
    if observed.storage_uri != observed.annotation(CANDIDATE_URI) and not is_still_canary:
        # Somebody has named another version since: which revision was rolled out before, the status may not tell yet.
        return False
    return bool(safe) and safe in (observed.latest_rolledout, observed.previous_rolledout)


def _shield_is_futile(observed: KnativeObserved, safe: str) -> bool:
    """Return whether percent 0 will never lead to the good revision, so that waiting for it would only prolong the
    harm.
    """
    rolled_out = observed.latest_rolledout
    if rolled_out == safe or not rolled_out:
        return False
    about_to_be_set_back = (
        rolled_out == observed.latest_ready == observed.latest_created
        and observed.previous_rolledout == safe != ""
    )
    return not about_to_be_set_back


def _canary_may_still_appear(observed: KnativeObserved, safe: str) -> bool:
    """Return whether the canary's revision may not have been created yet, so that its name cannot be noted.

    Its name is the only proof, later, that the latest revision is not the bad one: the generation in the status may
    run ahead (kserve#6081). With percent 0 set, to wait leads nobody there.
    """
    return bool(safe) and observed.latest_created == safe and not observed.invalid_spec


def _patch_shield(observed: KnativeObserved, safe: str) -> Patch:
    return Patch(
        predictor_patch(observed, percent=0),
        "Take all users off the bad revision.",
        SHIELD,
        fallback=leading_back(observed, safe, SHIELD),
        is_urgent=bool(safe),
    )


def _patch_restore(goal: RollBack, observed: KnativeObserved, percent: int | None) -> Patch:
    # No user has met a preview: whether it may be released again is for the gate that refused it.
    left = None if observed.is_preview else observed.storage_uri
    body = _naming(goal, observed, percent, {**_notes(goal, observed), ROLLED_BACK_URI: left})
    return Patch(
        body, "Name the good version again; it boots without taking the bad one more users.", RESTORE
    )


def _patch_again(goal: RollBack, observed: KnativeObserved) -> Patch:
    """Name the good version once more, and change nothing for users: the revision that comes of it carries our note."""
    notes: dict[str, str | None] = {STABLE_URI: goal.stable_uri}
    left = observed.annotation(CANDIDATE_URI)
    if left not in ("", goal.stable_uri):
        notes = {**_notes(goal, observed), ROLLED_BACK_URI: left}
    reason = "Somebody else has set the good version: set it again, to know its revision."
    return Patch(_naming(goal, observed, observed.canary_percent, notes), reason, RESTORE)


def _notes(goal: RollBack, observed: KnativeObserved) -> dict[str, str | None]:
    replaced = observed.latest_created
    stable_known = observed.annotation(STABLE_URI) == goal.stable_uri
    is_good = replaced == safe_revision(goal, observed) or observed.serves(replaced) == goal.stable_uri
    return {
        REPLACED_REVISION: None if is_good else replaced,
        CANDIDATE_URI: None,
        PREVIEW_GENERATION: None,
        STABLE_URI: goal.stable_uri,
        VERSION: (observed.annotation(STABLE_VERSION) or None) if stable_known else None,
    }


def _naming(
    goal: RollBack, observed: KnativeObserved, percent: int | None, notes: dict[str, str | None]
) -> dict[str, Any]:
    """Return the patch that names the good version, with the generation that it makes: the note is part of the spec."""
    body = predictor_patch(observed, percent=percent, storage_uri=goal.stable_uri, annotations=notes)
    body["spec"]["predictor"]["annotations"] = {RESTORED_AT: str(observed.generation + 1)}
    return body


# --- phases 3 and 4: the spec names the good version ---


def _good_is_named(goal: RollBack, observed: KnativeObserved) -> Action:
    if observed.canary_percent is None:
        return _await_release(goal, observed)
    if is_of_the_rollback(observed, goal.stable_uri):
        return Patch(
            predictor_patch(observed, percent=None),
            "The good version answers: give it all traffic.",
            RELEASE_TRAFFIC,
        )
    rest_is_good = _rest_is_good(goal, observed)
    if observed.canary_percent != 0 and rest_is_good and not _latest_is_good(goal, observed):
        return _patch_shield(observed, safe_revision(goal, observed))
    users_safe = rest_is_good and observed.alone(observed.latest_rolledout)
    if is_named_by_the_rollback(observed):
        found = doubt(observed, goal.stable_uri)
        return Wait(
            f"Waiting for the new revision of the good version to answer. {found}".rstrip(),
            BOOT,
            failure=observed.failure,
            users_safe=users_safe,
        )
    if observed.canary_percent == 0 and rest_is_good and not (users_safe or _is_never_confirmed(observed)):
        return Wait(
            f"Percent 0 is set; waiting to see all traffic on the good revision.{observed.traffic_doubt}",
            SHIELD,
            fallback=leading_back(observed, observed.latest_rolledout, SHIELD),
        )
    # Somebody else has named it, or has changed the spec since: what KServe still does may be about another one.
    return _patch_again(goal, observed)


def _is_never_confirmed(observed: KnativeObserved) -> bool:
    """Return whether all traffic is meant for what is rolled out, and the status will never confirm that."""
    return not observed.route_reported and observed.is_intended_alone(observed.latest_rolledout)


def _rest_is_good(goal: RollBack, observed: KnativeObserved) -> bool:
    """Return whether percent 0 leads to the good version: what is rolled out serves it, or is noted to."""
    rest = observed.latest_rolledout
    if observed.serves(rest):
        return observed.serves(rest) == goal.stable_uri
    return rest == _noted(goal, observed) != ""


def _latest_is_good(goal: RollBack, observed: KnativeObserved) -> bool:
    """Return whether the latest ready revision serves the good version; by its name, where it cannot be read."""
    if observed.serves(observed.latest_ready):
        return observed.serves(observed.latest_ready) == goal.stable_uri
    return observed.candidate_ready and observed.annotation(REPLACED_REVISION) not in (
        "",
        observed.latest_ready,
    )


def _await_release(goal: RollBack, observed: KnativeObserved) -> Action:
    found = live_doubt(observed, goal.stable_uri)
    if not found:
        return Done(dict(observed.traffic), reason="All traffic is on the good version.")
    would_help = observed.latest_ready not in ("", observed.latest_rolledout) and _rest_is_good(
        goal, observed
    )
    if would_help and not _latest_is_good(goal, observed):
        # Someone named the good version and dropped the percent at once: until it answers, the bad one is the
        # latest ready.
        return _patch_shield(observed, safe_revision(goal, observed))
    return Wait(
        f"Waiting to see all traffic on the good version. {found}{observed.traffic_doubt}",
        RELEASE_TRAFFIC,
        failure=observed.failure,
    )
