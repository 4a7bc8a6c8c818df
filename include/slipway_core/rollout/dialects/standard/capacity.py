"""Weight follows capacity, in the Standard dialect: who gets users has the pods that carry them.

KServe calls a version ready when one of its pods answers, and leads any share there. So nobody is given more users
before the available replicas of its Deployment carry them: `needed` of as many as stable had when the canary began.
That is its minReplicas, or what its Deployment wanted then, where an autoscaler had asked for more. The way to 0 %
asks nothing of this.

And who counts the users of a version knows that its Deployment serves it: KServe may not have acted on the spec yet, or
its pods are being replaced one by one.
"""

from __future__ import annotations

from slipway_core.rollout.dialects.standard.replicas import number_in
from slipway_core.rollout.dialects.standard.view import CanaryEntry, StandardView
from slipway_core.rollout.fields import STABLE_MIN_REPLICAS, STABLE_REPLICAS


def stable_replicas(view: StandardView) -> int:
    """Return how many replicas stable has, where no canary has begun."""
    stable = (view.deployments or {}).get(view.stable_backend)
    return max(view.min_replicas or 1, 1 if stable is None else stable.wanted)


def replicas_before(view: StandardView, entry: CanaryEntry) -> int:
    """Return how many replicas stable had when the canary began."""
    noted = [number_in(entry.notes.get(key, "")) for key in (STABLE_REPLICAS, STABLE_MIN_REPLICAS)]
    return max(next((number for number in noted if number is not None), view.min_replicas or 1), 1)


def unseen(view: StandardView, backend: str) -> str:
    """Return why nobody knows how many pods `backend` has; "" if it is known."""
    if view.deployments is None:
        return (
            "The Deployments cannot be read, so the number of pods is unknown: allow the account to list "
            "deployments.apps in this namespace."
        )
    return "" if backend in view.deployments else f"The Deployment {backend} was not found."


def unproved(view: StandardView, backend: str, uri: str) -> str:
    """Return why all pods of `backend` are not known to serve `uri`; "" if they are."""
    hidden = unseen(view, backend)
    if hidden or view.deployments is None:
        return hidden
    found = view.deployments[backend]
    if found.storage_uri != uri:
        served = found.storage_uri or "an unknown version"
        return f"The Deployment {backend} serves {served}, not {uri}: KServe has not acted on the spec yet."
    return "" if found.are_alike else f"There are still pods of another version among those of {backend}."


def missing(view: StandardView, backend: str, pods: int) -> str:
    """Return what keeps `backend` from having `pods` available pods; "" if it has them."""
    hidden = unseen(view, backend)
    if hidden or view.deployments is None:
        return hidden
    available = view.deployments[backend].available
    if available >= pods:
        return ""
    return f"{available} of the {pods} pods of {backend} that are needed are available."


def incomplete(view: StandardView, uri: str) -> str:
    """Return what is missing of a first version's replicas; "" if all are available, and serve it."""
    backend = view.stable_backend
    return missing(view, backend, stable_replicas(view)) or unproved(view, backend, uri)
