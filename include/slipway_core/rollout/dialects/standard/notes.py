"""What the Standard dialect keeps elsewhere: slipway's notes, the candidate's own address, and whom pods serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.rollout.dialects.standard.view import CanaryEntry, StandardView
from slipway_core.rollout.fields import (
    ANNOTATION_PREFIX,
    CANDIDATE_URI,
    STABLE_REVISION,
    STABLE_URI,
    STABLE_VERSION,
    VERSION,
    mapping,
    texts,
)


def own_urls(view: StandardView) -> dict[str, str]:
    """Return the address of slipway's canary, where its own route leads to it."""
    if view.own is None or view.own_route.backend != view.backend(view.own) or not view.own_route.current:
        return {}
    return {view.own_route.backend: f"http://{view.own_route.host}"}


def notes_of(isvc: Mapping[str, Any], view: StandardView, own: CanaryEntry | None) -> dict[str, str]:
    """Return the notes under the keys that the other dialect has on the object itself."""
    kept = texts(mapping(isvc.get("metadata")).get("annotations"))
    if own is None:
        return kept | _ours(view.stable_notes)
    version = view.stable_notes.get(VERSION) or kept.get(VERSION, "")
    own_notes = {STABLE_URI: view.stable_uri, STABLE_VERSION: version} | _ours(own.notes)
    return {**kept, **own_notes, CANDIDATE_URI: own.storage_uri, STABLE_REVISION: view.stable_backend}


def _ours(notes: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in notes.items() if key.startswith(ANNOTATION_PREFIX)}


def leads_nobody_to(view: StandardView, uri: str) -> bool:
    """Return whether the spec gives `uri` nothing, and nobody is led to pods that serve it, or may."""
    wanted = any(entry.percent for entry in view.canaries if entry.storage_uri == uri)
    led = {backend for backend, share in view.route.traffic.items() if share}
    pods = [one for one in map((view.deployments or {}).get, led) if one is not None]
    served = any(one.storage_uri == uri or not one.are_alike for one in pods)
    return view.stable_uri != uri and not (wanted or served or led & view.backends_of(uri))
