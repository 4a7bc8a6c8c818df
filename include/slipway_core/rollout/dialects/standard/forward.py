"""Forward in KServe's Standard dialect: a canary is an entry of `spec.canary` beside the stable predictor.

What its patches must not do, and why, says `patch.py`; `view.py` says what was read of KServe.
Here:

- The weight in the entry leads nobody anywhere. It is reached when the HTTPRoutes show it and their Gateways
  have taken them. Where KServe leaves them as they are, no step forward writes them.
- Weight follows capacity (`capacity.py`). A canary begins at percent 0 with the replicas that its first weight needs;
  before each raise it gets those of the coming weight at the present percent, and the percent follows when they
  are available. A smaller weight waits for nothing.
- Percent 0 marks a start, a preview or a rollback and percent 100 a promotion under way, and no other forward step acts
  on either. A start and a preview differ from a rollback in the generation that they noted (`Observed.is_preview`).
- In a preview testers come by an HTTPRoute of slipway's own (`candidate_route.py`), which stays while the canary does.
- A promotion takes two patches. KServe deletes the old stable Deployment and its Service before it changes the
  route (`reconcileCanaryDeployments`, then the ingress), so whoever is still led there at that moment gets an
  error. Therefore everyone is led to the canary first (percent 100, the old stable still warm), and only when
  that is seen the canary becomes the stable predictor, under its own name.
- An entry that slipway did not make is somebody else's canary: nothing is started beside one.
"""

from __future__ import annotations

from slipway_core.rollout.actions import (
    Action,
    Done,
    Expose,
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
from slipway_core.rollout.dialects.standard.capacity import (
    missing,
    replicas_before,
    stable_replicas,
    unproved,
)
from slipway_core.rollout.dialects.standard.patch import (
    leaves_too_few,
    promoted,
    with_new_entry,
    with_percent,
    with_replicas,
)
from slipway_core.rollout.dialects.standard.replicas import needed
from slipway_core.rollout.dialects.standard.view import (
    UNKNOWN,
    CanaryEntry,
    StandardView,
    backend_name,
    predictor_name,
    version_in,
)
from slipway_core.rollout.fields import (
    CANDIDATE_URI,
    PREVIEW_GENERATION,
    RELEASE,
    STABLE_URI,
    STABLE_VERSION,
    START_GENERATION,
    VERSION,
)
from slipway_core.rollout.observation import Observed

_SERVICE_NAME_LIMIT = 63


def start_canary(goal: StartCanary, observed: Observed, view: StandardView) -> Action:
    """Return the next action towards a canary of `goal.uri` at its weight."""
    refusal = refuse_weight(goal.weight)
    if refusal is not None:
        return refusal
    if view.own is not None and view.own.storage_uri == goal.uri:
        return _canary_is_named(goal, observed, view)
    hindrance = _cannot_begin(goal, observed, view)
    if hindrance is not None:
        return hindrance
    body = with_new_entry(
        observed,
        view,
        goal.uri,
        percent=0,
        replicas=needed(stable_replicas(view), goal.weight),
        notes={**_notes(goal, observed, view), START_GENERATION: str(observed.generation + 1)},
    )
    return Patch(body, f"Bring {goal.uri} up for a canary at {goal.weight} %.", "canary")


def show_candidate(goal: ShowCandidate, observed: Observed, view: StandardView) -> Action:
    """Return the next action towards a preview of `goal.uri`: pods that answer at an address of their own alone."""
    if view.own is None or view.own.storage_uri != goal.uri:
        hindrance = _cannot_begin(goal, observed, view)
        if hindrance is not None:
            return hindrance
        notes = {**_notes(goal, observed, view), PREVIEW_GENERATION: str(observed.generation + 1)}
        body = with_new_entry(observed, view, goal.uri, percent=0, replicas=1, notes=notes)
        return Patch(body, f"Bring {goal.uri} up at 0 %, for a preview.", "preview")
    pending = refuse_preview(observed) or _disturbed(observed, view, view.own) or _pending(view.own, view)
    if pending is not None:
        return pending
    return _expose(view.own, observed, view)


def _expose(entry: CanaryEntry, observed: Observed, view: StandardView) -> Action:
    """Return the next action towards an address of the candidate's own."""
    wanted = view.route_to(entry)
    if wanted is None:
        return Impossible(
            f"No HTTPRoute {view.service}-predictor names a host that the candidate's could be made of (at most "
            f"{_SERVICE_NAME_LIMIT} characters before the first dot). Give the service a shorter name, or leave out "
            "`rollout.preview`."
        )
    if (view.own_route.host, view.own_route.backend) != (wanted["spec"]["hostnames"][0], view.backend(entry)):
        return Expose(wanted, "Give the candidate its own host.")
    found = _served(entry, view)
    if not found and observed.candidate_url and observed.alone(view.stable_backend):
        return Done(
            dict(observed.traffic), reason=f"The candidate answers at {observed.candidate_url} alone."
        )
    return Wait(f"Waiting for a Gateway to take the candidate's HTTPRoute. {found}".rstrip(), "preview")


def _canary_is_named(goal: StartCanary, observed: Observed, view: StandardView) -> Action:
    entry = view.own
    if entry is None or entry.percent != 0:
        return shift_weight(ShiftWeight(goal.weight, goal.uri), observed, view)
    refusal = refuse_raise(goal, observed) or _disturbed(observed, view, entry)
    return refusal or _to_weight(goal.weight, entry, observed, view)


def _cannot_begin(goal: StartCanary | ShowCandidate, observed: Observed, view: StandardView) -> Action | None:
    """Return why no candidate can be brought up beside what is there, or not yet."""
    hindrance = (
        _occupied(goal, observed, view)
        or _unsettled(observed, view)
        or refuse_start(goal, observed)
        or _name_refusal(goal.uri, view)
    )
    if hindrance is not None:
        return hindrance
    if not observed.alone(view.stable_backend):
        return Wait("Waiting for the stable version to have all traffic.", "settle")
    found = unproved(view, view.stable_backend, view.stable_uri)
    return Wait(found, "settle") if found else None


def _notes(goal: StartCanary | ShowCandidate, observed: Observed, view: StandardView) -> dict[str, str]:
    notes = {
        RELEASE: goal.release_id,
        VERSION: version_in(goal.uri) if goal.version is None else str(goal.version),
        CANDIDATE_URI: goal.uri,
        STABLE_URI: view.stable_uri,
        STABLE_VERSION: observed.annotation(VERSION),
    }
    # KServe lays the entry over the stable predictor: an empty text would leave what is noted there.
    return {key: value or UNKNOWN for key, value in notes.items()}


def _occupied(goal: StartCanary | ShowCandidate, observed: Observed, view: StandardView) -> Impossible | None:
    if view.stable_uri == goal.uri:
        return Impossible(f"{goal.uri} is what {observed.name} serves already.")
    if not view.canaries:
        return None
    whose = observed.annotation(RELEASE) if view.own else ""
    shares = ", ".join(f"{entry.percent} % to {entry.storage_uri}" for entry in view.canaries)
    return Impossible(
        f"Another canary or rollback is under way on {observed.name} ({shares}, release {whose or 'unknown'}). "
        "Finish or roll back that one first.",
        kind="foreign_change",
    )


def _unsettled(observed: Observed, view: StandardView) -> Action | None:
    """Return why no canary can start yet: the stable predictor must answer."""
    if view.predictor_ready:
        return None
    if observed.failure is None:
        return Wait("Waiting for the stable version to come up.", "settle")
    return Impossible(
        f"The version that {observed.name} names does not run ({observed.failure}). Repair or roll back first.",
        kind="load_failed",
    )


def _name_refusal(storage_uri: str, view: StandardView) -> Impossible | None:
    name = predictor_name(storage_uri)
    if name == view.stable_name:
        return Impossible(
            f"The stable predictor is called {name}, which is this version's name, but serves {view.stable_uri}: "
            "changed by others. Give it the storageUri that its name stands for, or another name.",
            kind="foreign_change",
        )
    backend = backend_name(view.service, name)
    if len(backend) > _SERVICE_NAME_LIMIT:
        return Impossible(
            f"The canary's Service would be called {backend}, longer than {_SERVICE_NAME_LIMIT} characters; "
            "give the InferenceService a shorter name."
        )
    return None


def shift_weight(goal: ShiftWeight, observed: Observed, view: StandardView) -> Action:
    """Return the next action towards the weight."""
    refusal = refuse_weight(goal.weight)
    if refusal is not None:
        return refusal
    entry = _under_way(goal.uri, observed, view)
    if isinstance(entry, Impossible):
        return entry
    if entry.percent == 100:
        return Impossible(f"The canary on {observed.name} is being promoted.")
    return _to_weight(goal.weight, entry, observed, view)


def _to_weight(weight: int, entry: CanaryEntry, observed: Observed, view: StandardView) -> Action:
    """Return the next action towards the weight, for a candidate that may have it."""
    if entry.percent > weight:
        body = with_percent(observed, view, entry, weight)
        return Patch(body, f"Take the canary back from {entry.percent} to {weight} %.", "canary")
    pending = _pending(entry, view)
    if pending is not None:
        return pending
    if entry.percent != weight:
        body = with_percent(observed, view, entry, weight)
        raising = Patch(body, f"Shift the canary from {entry.percent} to {weight} %.", "canary")
        return _prepared(weight, entry, observed, view, "canary") or raising
    found = _served(entry, view)
    if not found and observed.is_split({view.backend(entry): weight, view.stable_backend: 100 - weight}):
        return Done(dict(observed.traffic), reason=f"The candidate has {weight} % of the traffic.")
    return Wait(
        f"Waiting to see {weight} % on the candidate in the HTTPRoutes (KServe before 0.21 never writes it). "
        f"{found}".rstrip(),
        "canary",
    )


def _prepared(
    weight: int, entry: CanaryEntry, observed: Observed, view: StandardView, phase: str
) -> Action | None:
    """Return what is left to do before the candidate has the pods that carry a weight; None if it has them."""
    pods = needed(replicas_before(view, entry), weight)
    if entry.min_replicas >= pods:
        short = missing(view, view.backend(entry), pods) or _served(entry, view)
        return Wait(f"Waiting with {weight} % for the candidate's pods: {short}", phase) if short else None
    if leaves_too_few(view, entry, pods):
        return Impossible(
            f"Somebody has set the stable predictor's minReplicas of {observed.name} to {view.min_replicas} during the "
            f"canary. KServe takes the candidate's {pods} from that, so too few would be left for a rollback. "
            "Raise it, or release again.",
            kind="foreign_change",
        )
    body = with_replicas(observed, view, entry, pods)
    return Patch(body, f"Give the candidate the {pods} replicas that {weight} % need.", phase)


def promote(goal: Promote, observed: Observed, view: StandardView) -> Action:
    """Return the next action towards all traffic on the candidate."""
    if view.own is None:
        return _await_promotion(goal.uri or observed.annotation(CANDIDATE_URI), observed, view)
    entry = _under_way(goal.uri, observed, view)
    if isinstance(entry, Impossible):
        return entry
    pending = _pending(entry, view)
    if pending is not None:
        return pending
    if entry.percent != 100:
        body = with_percent(observed, view, entry, 100)
        raising = Patch(body, "Lead everyone to the candidate.", "promote")
        return _prepared(100, entry, observed, view, "promote") or raising
    found = _served(entry, view)
    if found or not observed.alone(view.backend(entry)):
        reason = f"Waiting to see everyone on the candidate before the old one goes. {found}".rstrip()
        return Wait(reason, "promote")
    return Patch(promoted(observed, view, entry), "Make the candidate the stable predictor.", "promote")


def _await_promotion(uri: str, observed: Observed, view: StandardView) -> Action:
    if not uri or view.stable_uri != uri:
        return Impossible(f"No canary of {uri or 'any version'} is under way on {observed.name}.")
    found = unproved(view, view.stable_backend, uri)
    if not found and view.predictor_ready and observed.alone(view.stable_backend) and not view.echoes:
        return Done(dict(observed.traffic), reason="The candidate has all traffic.")
    reason = f"Waiting to see all traffic on the candidate. {found}".rstrip()
    return Wait(reason, "promote", failure=observed.failure)


def _served(entry: CanaryEntry, view: StandardView) -> str:
    """Return why the candidate's pods are not known to serve what the spec names; "" if they are."""
    return unproved(view, view.backend(entry), entry.storage_uri)


def _under_way(uri: str, observed: Observed, view: StandardView) -> CanaryEntry | Impossible:
    """Return slipway's canary, or why forward steps are out of the question."""
    entry = view.own
    if entry is None:
        return Impossible(f"No canary is under way on {observed.name}.")
    if entry.storage_uri != (uri or entry.notes[CANDIDATE_URI]):
        return Impossible(
            f"The canary on {observed.name} names {entry.storage_uri}, not {uri or entry.notes[CANDIDATE_URI]}: "
            "rolled back, or changed by others.",
            kind="foreign_change",
        )
    return refuse_forward(observed) or _disturbed(observed, view, entry) or entry


def _disturbed(observed: Observed, view: StandardView, entry: CanaryEntry) -> Impossible | None:
    """Return what somebody else has done since the canary began that forbids to go on."""
    if entry.notes.get(STABLE_URI, view.stable_uri) != view.stable_uri:
        return Impossible(
            f"The stable version of {observed.name} was changed during the canary: it names {view.stable_uri}, "
            f"not {entry.notes[STABLE_URI]}.",
            kind="foreign_change",
        )
    if view.others:
        names = ", ".join(other.name for other in view.others)
        return Impossible(
            f"Someone else began a canary ({names}) on {observed.name} during this one.",
            kind="foreign_change",
        )
    return None


def _pending(entry: CanaryEntry, view: StandardView) -> Action | None:
    """Return why the candidate cannot take traffic yet; None when it answers."""
    echo = view.echo(entry)
    if echo is None:
        return Wait("Waiting for the controller to take note of the candidate.", "canary")
    return None if echo.ready else Wait("Waiting for the candidate to come up.", "canary")
