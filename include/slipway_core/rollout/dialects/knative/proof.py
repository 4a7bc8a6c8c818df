"""What is known for certain in KServe's Knative dialect, though the status may be older than the spec.

The status repeats what Knative said when KServe looked last; which spec that was about, nobody can tell from it. Two
objects behind the InferenceService can:

- The Knative Service's spec is what KServe has acted on, and its own generations show whether Knative has done it.
- A revision never changes: what it serves is written in its template.

One thing neither tells: whether KServe holds a spec that it has read and not acted on yet, where somebody has named
another version and this one again. So before a rollback gives everyone to the latest revision, that must carry the note
of the rollback's own naming (`RESTORED_AT`): it was made of that spec or a later one, and nobody has changed the spec
since, so every revision from there on serves the good version.
"""

from __future__ import annotations

from slipway_core.rollout.dialects.knative.observed import KnativeObserved

_REMEDY = (
    "See that the account may get services and revisions of serving.knative.dev in this namespace, and that the API "
    "answers."
)


def doubt(observed: KnativeObserved, uri: str) -> str:
    """Return why the newest revision is not known to serve `uri` with what the spec gives it; "" if it is."""
    service, latest = observed.knative, observed.latest_created
    if observed.unseen:
        return f"What KServe has made of the spec cannot be read: {observed.unseen}. {_REMEDY}"
    if service is None:
        return f"The Knative Service that KServe has made was not found. {_REMEDY}"
    if not observed.is_acted_on:
        named = service.template.storage_uri or "nothing"
        return (
            f"KServe has not acted on the spec yet: its Knative Service names {named} "
            f"at {service.latest_percent} %, so the status may still be about the previous spec."
        )
    if observed.serves(latest) != uri:
        return (
            f"{latest or 'No revision'} serves {observed.serves(latest) or 'an unknown version'}, not {uri}."
        )
    return ""


def live_doubt(observed: KnativeObserved, uri: str) -> str:
    """Return why `uri` is not known to be what everybody gets, now and when the controllers have done all; "" if
    it is.
    """
    found = doubt(observed, uri)
    if found or observed.knative is None:
        return found
    latest = observed.latest_created
    if not observed.knative.is_settled or observed.knative.latest_ready != latest:
        return "Knative has not done yet what its Knative Service asks for."
    if observed.alone(latest) and observed.latest_ready == observed.latest_rolledout == latest:
        return ""
    return f"{latest} is not seen to have all the traffic."


def is_of_the_rollback(observed: KnativeObserved, uri: str) -> bool:
    """Return whether every revision from the latest ready one on serves `uri`: it is of the rollback's own naming, and
    the spec has had no change since but the release of its percent.
    """
    made = observed.revisions.get(observed.latest_ready)
    if made is None or not observed.candidate_ready or made.storage_uri != uri:
        return False
    return made.restored_at == observed.restored_at and _is_of_now(observed)


def is_named_by_the_rollback(observed: KnativeObserved) -> bool:
    """Return whether the spec is as a rollback has left it when it named the good version."""
    return observed.restored_at == str(observed.generation)


def _is_of_now(observed: KnativeObserved) -> bool:
    released = str(observed.generation - 1) if observed.canary_percent is None else ""
    return observed.restored_at != "" and observed.restored_at in (str(observed.generation), released)
