"""Back to the good version, in KServe's Standard dialect, without ever sending the bad one more users.

The obvious patch (remove the canary) deletes its Deployment and Service before the route leads away from them,
and whoever is led there in between gets an error. So, while the stable predictor still is the good version:

    1  shield    percent 0, nothing else: the canary's pods stay (they have a minReplicas of their own). Then wait
                 until the HTTPRoutes show the stable one alone and their Gateways have taken them. Users are safe.
    2  restore   one patch: the canary goes, and stable's minReplicas are what they were. Then wait until no HTTPRoute
                 names its backend any more, at weight 0 neither: some gateways lead requests there all the same.

Stable's replicas are never fewer in between: while there is a canary its minReplicas are raised by as many as
KServe takes away (`patch.py`), and fall back only when everybody is back and there is no canary.

KServe leaves the HTTPRoutes as they are while stable's Deployment is not available, whatever the spec says. So where
they do not follow within seconds, and at once where the spec cannot be patched (the API asks KServe's webhooks, and
KServe hangs), slipway writes their weights itself (`routes.py`), and does nothing else. Phase 1
waits for no pod: users are better off with too few pods of the good version than with the bad one.

Phase 2 waits for the controller's echo of percent 0 as well: until then a reconciliation that has read the old
percent may yet write it into the route. Where it had echoed none but 0 when the rollback began, that proves nothing,
because every canary begins at 0; a note in the entry says so, and then time must do. No echo at all means that no
reconciliation with this canary was ever finished, so that it cannot be in a route, and that KServe may not be able to
finish one while it is there.

Where the bad version was promoted, KServe has deleted the good one's Deployment, and the bad one keeps what it
has until the good one answers, because there is no other:

    3  restore   the good version as a canary at percent 0, with one replica.
    4  boot      wait until it is ready, give it as many replicas as the bad one has, and wait until all are available:
                 it is cold, and KServe would lead everyone to the first pod that answers.
    5  release   percent 100; wait until the routes show it alone; then make it the stable predictor. Where the bad
                 version's pods crash KServe leaves the routes as they are here too, and slipway writes them.

Percent 0 and 100 are no weights of a canary, so forward goals refuse to act on them, a preview and a start excepted:
they note the generation of the object that their own patch made, and phase 1 or 2 makes another. A preview or a start
never had a user, so it is removed at once. Which phase is due is read
from the object alone, so any task, guard or person can go on where another stopped. Nothing on the object says
afterwards that a version was rolled back: a note on it would restart stable's pods. A late duplicate of the
canary's start is recognised by the generation (`StartCanary.generation`), a new release by the record.
"""

from __future__ import annotations

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
from slipway_core.rollout.dialects.standard.capacity import missing, replicas_before, unproved, unseen
from slipway_core.rollout.dialects.standard.patch import (
    promoted,
    with_new_entry,
    with_percent,
    with_replicas,
    without_entry,
)
from slipway_core.rollout.dialects.standard.routes import dead_backends, dropping, leading_away
from slipway_core.rollout.dialects.standard.view import CanaryEntry, StandardView, predictor_name, version_in
from slipway_core.rollout.fields import (
    CANDIDATE_URI,
    RELEASE,
    STABLE_URI,
    STABLE_VERSION,
    UNNOTED_RAISE,
    VERSION,
)
from slipway_core.rollout.observation import Observed


def roll_back(goal: RollBack, observed: Observed, view: StandardView) -> Action:
    """Return the next action on the way back to `goal.stable_uri`."""
    named = {view.stable_uri} if view.own is None else {view.stable_uri, view.own.storage_uri}
    strange = named - {goal.stable_uri, goal.candidate_uri}
    if goal.candidate_uri and strange:
        return Impossible(
            f"Someone else changed {observed.name}: it names {', '.join(sorted(strange))}, neither the candidate "
            f"{goal.candidate_uri} nor the stable {goal.stable_uri}. It was left as it is; decide by hand.",
            kind="foreign_change",
        )
    if view.stable_uri == goal.stable_uri:
        return _stable_is_good(goal, observed, view)
    return _stable_is_bad(goal, observed, view)


# --- phases 1 and 2: the stable predictor is the good version ---


def _stable_is_good(goal: RollBack, observed: Observed, view: StandardView) -> Action:
    entry = view.own
    if entry is None:
        return _await_stable(goal, observed, view)
    away = leading_away(view, off=view.backend(entry), to=view.stable_backend, phase=SHIELD)
    if entry.percent != 0:
        echo = view.echo(entry)
        notes = {UNNOTED_RAISE: "true"} if echo is None or echo.percent == 0 else {}
        body = with_percent(observed, view, entry, 0, notes)
        return Patch(body, "Take all users off the bad revision.", SHIELD, away, is_urgent=away is not None)
    safe = observed.traffic_current and observed.share(view.backend(entry)) == 0
    users_safe = safe and _may_serve(goal, view)
    if safe and (observed.is_preview or observed.is_start):
        return Patch(without_entry(observed, view, entry), "It never had a user: remove the canary.", RESTORE)
    if not safe or not (view.others or observed.alone(view.stable_backend)):
        return Wait(
            "Percent 0 is set; waiting to see all traffic on the good revision.",
            SHIELD,
            users_safe=users_safe,
            fallback=away,
        )
    echo = view.echo(entry)
    is_noted = echo is not None and echo.percent == 0 and UNNOTED_RAISE not in entry.notes
    if not is_noted and not goal.unnoted_may_go:
        # Until then it may still act on what it has read: a canary that was removed meanwhile would get users.
        return Wait("Waiting for the controller to take note of percent 0.", SHIELD, users_safe=users_safe)
    return Patch(without_entry(observed, view, entry), "It has no traffic: remove the canary.", RESTORE)


def _may_serve(goal: RollBack, view: StandardView) -> bool:
    """Return whether nothing speaks against it that the stable predictor's pods serve the good version."""
    return view.deployments is None or not unproved(view, view.stable_backend, goal.stable_uri)


def _await_stable(goal: RollBack, observed: Observed, view: StandardView) -> Action:
    if view.others:
        shares = ", ".join(f"{one.percent} % to {one.name}" for one in view.others)
        return Impossible(
            f"No canary of slipway's is left on {observed.name}, but somebody else's is ({shares}). It was left as "
            "it is; decide by hand.",
            kind="foreign_change",
        )
    backend, dead = view.stable_backend, dead_backends(view)
    is_trusted = goal.unseen_may_serve and bool(unseen(view, backend))
    doubt = "" if is_trusted else unproved(view, backend, goal.stable_uri)
    if observed.alone(backend) and not view.echoes and not doubt:
        if dead:
            return Wait(
                f"The canary is removed; waiting until no HTTPRoute names {', '.join(dead)} at weight 0 any more.",
                RELEASE_TRAFFIC,
                users_safe=True,
                fallback=dropping(view, dead, RELEASE_TRAFFIC),
            )
        return Done(dict(observed.traffic), reason="All traffic is on the good version.")
    missing = "" if view.route.found else " No HTTPRoute leads to it."
    return Wait(
        f"Waiting to see all traffic on the good version.{missing} {doubt}".rstrip(),
        RELEASE_TRAFFIC,
        failure=observed.failure,
    )


# --- phases 3 to 5: the bad version is the stable predictor ---


def _stable_is_bad(goal: RollBack, observed: Observed, view: StandardView) -> Action:
    entry = view.own
    if entry is not None and entry.storage_uri == goal.stable_uri:
        return _good_comes_back(goal, entry, observed, view)
    if view.canaries:
        names = ", ".join(one.storage_uri for one in view.canaries)
        return Impossible(
            f"A canary of {names} is under way over the version to leave. Finish or roll back that one first.",
            kind="foreign_change",
        )
    if not observed.latest_rolledout:
        return Impossible(
            f"{observed.name} never served a version before this one, so there is none to go back to. "
            "Withdraw it, or fix the model and release it again."
        )
    if predictor_name(goal.stable_uri) == view.stable_name:
        return Impossible(
            f"The stable predictor is called {view.stable_name}, which is the good version's name, but serves "
            f"{view.stable_uri}. Give it the good version's storageUri by hand.",
            kind="foreign_change",
        )
    # Whoever finds it half done finds in it where it leads.
    notes = {
        RELEASE: "rollback",
        VERSION: version_in(goal.stable_uri),
        CANDIDATE_URI: goal.stable_uri,
        STABLE_URI: goal.stable_uri,
        STABLE_VERSION: version_in(goal.stable_uri),
    }
    body = with_new_entry(observed, view, goal.stable_uri, percent=0, replicas=1, notes=notes)
    return Patch(body, "Bring the good version up; it boots without taking the bad one more users.", RESTORE)


def _good_comes_back(goal: RollBack, entry: CanaryEntry, observed: Observed, view: StandardView) -> Action:
    echo = view.echo(entry)
    if echo is None or not echo.ready:
        return Wait("Waiting for the good version to answer.", BOOT)
    pods, backend = replicas_before(view, entry), view.backend(entry)
    is_trusted = goal.unseen_may_serve and unseen(view, backend)
    short = "" if is_trusted else missing(view, backend, pods) or unproved(view, backend, goal.stable_uri)
    if entry.percent != 100:
        if entry.min_replicas < pods:
            body = with_replicas(observed, view, entry, pods)
            return Patch(body, f"Give the good version the {pods} replicas that its users need.", BOOT)
        if short:
            return Wait(f"Waiting for the good version's pods: {short}", BOOT)
        body = with_percent(observed, view, entry, 100)
        return Patch(body, "The good version carries the load: lead everyone to it.", RELEASE_TRAFFIC)
    if not observed.alone(backend):
        away = leading_away(view, off=view.stable_backend, to=backend, phase=RELEASE_TRAFFIC)
        return Wait(
            "Waiting to see all traffic on the good version.",
            RELEASE_TRAFFIC,
            fallback=None if short else away,
        )
    return Patch(
        promoted(observed, view, entry),
        "Everyone is on the good version: make it the stable one.",
        RELEASE_TRAFFIC,
    )
