"""Slipway's own write of the HTTPRoutes, for a rollback that KServe does not bring to the users.

KServe leaves its routes as they are while stable's Deployment is not available, whatever the spec says. And while its
manager hangs, its webhooks keep the API from changing the spec at all. Then, and for the way back alone, slipway writes
the weights itself: those that KServe would write. So it writes the same ones once it writes again, and nothing has to
be handed back. Where the spec still names the candidate's percent, KServe may write that once more when it is back: so
the spec is patched again and again until it has taken percent 0.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from slipway_core.rollout.actions import ObjectPatch, PatchMade
from slipway_core.rollout.dialects.standard.resources import HTTP_ROUTES
from slipway_core.rollout.dialects.standard.view import StandardView
from slipway_core.rollout.fields import is_made_for, items, mapping, text, whole


def leading_away(view: StandardView, *, off: str, to: str, phase: str) -> PatchMade | None:
    """Return what leads everyone who is on the backend `off` to `to`; None if no route of KServe's leads there.

    Only the weights of these two change; all else of a rule is given back as it is.
    """
    patches = []
    for name, version, rules in _routes_of_kserve(view):
        led = [_led(rule, off, to) for rule in rules]
        if led != rules:
            patches.append(ObjectPatch(name, {"metadata": version, "spec": {"rules": led}}))
    if not patches:
        return None
    reason = f"KServe does not change the HTTPRoutes: write their weights, with none for {off}."
    return PatchMade(HTTP_ROUTES, tuple(patches), reason, phase)


def dead_backends(view: StandardView) -> tuple[str, ...]:
    """Return the backends, other than the stable predictor's, that the routes still name with no share."""
    return tuple(
        name for name, share in view.route.traffic.items() if not share and name != view.stable_backend
    )


def dropping(view: StandardView, backends: Collection[str], phase: str) -> PatchMade | None:
    """Return what takes references without a share out of KServe's routes; None if none can go."""
    patches = []
    for name, version, rules in _routes_of_kserve(view):
        left = [_without(rule, backends) for rule in rules]
        if left != rules:
            patches.append(ObjectPatch(name, {"metadata": version, "spec": {"rules": left}}))
    if not patches:
        return None
    reason = f"KServe does not change the HTTPRoutes: take {', '.join(backends)} out of them."
    return PatchMade(HTTP_ROUTES, tuple(patches), reason, phase)


def _without(rule: Mapping[str, Any], backends: Collection[str]) -> dict[str, Any]:
    left = copy.deepcopy(dict(rule))
    references = left.get("backendRefs")
    kept = [one for one in items(references) if one.get("name") not in backends or one.get("weight") != 0]
    if kept and isinstance(references, list) and len(items(references)) == len(references):
        left["backendRefs"] = kept
    return left


def _routes_of_kserve(view: StandardView) -> Iterator[tuple[str, dict[str, str], list[Any]]]:
    """Yield name, version and rules of each route that KServe has made for this very InferenceService."""
    for route in view.routes:
        metadata, spec = mapping(route.get("metadata")), mapping(route.get("spec"))
        name, rules = text(metadata.get("name")), spec.get("rules")
        is_kserves = name in (view.service, f"{view.service}-predictor") and is_made_for(
            metadata, view.service, view.uid
        )
        if is_kserves and isinstance(rules, list) and len(items(rules)) == len(rules):
            yield name, {"resourceVersion": text(metadata.get("resourceVersion"))}, rules


def _led(rule: Mapping[str, Any], off: str, to: str) -> dict[str, Any]:
    """Return the rule with the weight of `off` given to `to`; as it is where nobody is led to `off`."""
    led = copy.deepcopy(dict(rule))
    references = led.get("backendRefs")
    left = [one for one in items(references) if one.get("name") == off and one.get("weight") != 0]
    if not left or not isinstance(references, list):
        return led
    if all(one.get("name") != to for one in items(references)):
        references.append({**left[0], "name": to, "weight": 0})
    good = next(one for one in references if isinstance(one, dict) and one.get("name") == to)
    good["weight"] = _weight(good) + sum(map(_weight, left)) or 100
    for one in left:
        one["weight"] = 0  # type: ignore[index]  # a dict of the copy above
    return led


def _weight(reference: Mapping[str, Any]) -> int:
    """Return a reference's weight; Gateway API: one that is not given is 1."""
    weight = 1 if reference.get("weight") is None else whole(reference["weight"])
    return max(weight or 0, 0)
