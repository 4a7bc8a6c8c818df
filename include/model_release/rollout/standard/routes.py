"""Slipway's own write of the HTTPRoutes' weights, for a rollback that KServe does not bring to the users.

KServe leaves its routes as they are while stable's Deployment is not available, whatever the spec says. And while its
manager hangs, its webhooks keep the API from changing the spec at all. Then, and for the way back alone, slipway writes
the weights itself: those that KServe would write. So it writes the same ones once it writes again, and nothing has to
be handed back. Where the spec still names the candidate's percent, KServe may write that once more when it is back: so
the spec is patched again and again until it has taken percent 0.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from include.model_release.rollout.actions import PatchRoutes, RoutePatch
from include.model_release.rollout.fields import is_made_for, items, mapping, text, whole
from include.model_release.rollout.standard_view import StandardView


def leading_away(view: StandardView, *, off: str, to: str, phase: str) -> PatchRoutes | None:
    """Return what leads everyone who is on the backend `off` to `to`; None where no route of KServe's leads there.

    Only the weights of these two change; all else of a rule is given back as it is.
    """
    patches = []
    for route in view.routes:
        metadata, spec = mapping(route.get("metadata")), mapping(route.get("spec"))
        name = text(metadata.get("name"))
        if name not in (view.service, f"{view.service}-predictor"):
            continue
        if not is_made_for(metadata, view.service, view.uid):
            continue
        rules = spec.get("rules")
        led = [_led(rule, off, to) for rule in items(rules)]
        if isinstance(rules, list) and len(led) == len(rules) and led != rules:
            version = {"resourceVersion": text(metadata.get("resourceVersion"))}
            patches.append(RoutePatch(name, {"metadata": version, "spec": {"rules": led}}))
    if not patches:
        return None
    reason = f"KServe does not change the HTTPRoutes: write their weights, nobody to {off}."
    return PatchRoutes(tuple(patches), reason, phase)


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
    told = 1 if reference.get("weight") is None else whole(reference["weight"])
    return max(told or 0, 0)
