"""Slipway's own write of a Knative Service's traffic, for a rollback that KServe does not carry on.

KServe turns the percent in the InferenceService into the traffic of the Knative Service that it has made. While
KServe's manager hangs it does not, and its webhooks keep the API from changing the InferenceService at all; Knative has
nothing to do with either. Then, and for the way back alone, slipway writes the traffic itself, as KServe would for
percent 0. So nothing has to be handed back once the InferenceService says percent 0 too. Until it does, KServe writes
the old percent once more when it is back: it compares the Knative Service with what it wants whenever that changes, and
when it starts. So the InferenceService is patched again and again until it has taken percent 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.rollout.actions import ObjectPatch, PatchMade
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES
from slipway_core.rollout.fields import text, whole

_EVERYONE = 100
# What KServe calls the revision that has the rest.
_TAG = "prev"


def leading_back(observed: KnativeObserved, safe: str, phase: str) -> PatchMade | None:
    """Return what leads everyone on the newest revision to `safe`; None if nothing is to be done, or can be.

    Tags stay, and so do the shares of revisions that are neither.
    """
    service = observed.knative
    if service is None or not safe:
        return None
    newest = {observed.latest_created, observed.latest_ready} - {safe}
    led = [dict(target) for target in service.targets]
    left = [one for one in led if _may_be(one, newest) and one.get("percent") != 0]
    if not left:
        return None
    good = next((one for one in led if _names(one, safe)), None)
    if good is None:
        tag = {} if any(one.get("tag") == _TAG for one in led) else {"tag": _TAG}
        good = {"revisionName": safe, "latestRevision": False, "percent": 0, **tag}
        led.append(good)
    good["percent"] = min(_percent(good) + sum(map(_percent, left)), _EVERYONE) or _EVERYONE
    for one in left:
        one["percent"] = 0
    body = {"metadata": {"resourceVersion": service.resource_version}, "spec": {"traffic": led}}
    reason = f"KServe does not change the Knative Service: write its traffic, everyone to {safe}."
    return PatchMade(KNATIVE_SERVICES, (ObjectPatch(service.name, body),), reason, phase)


def _names(target: Mapping[str, Any], revision: str) -> bool:
    return target.get("latestRevision") is not True and target.get("revisionName") == revision


def _may_be(target: Mapping[str, Any], newest: set[str]) -> bool:
    """Return whether a target leads to one of these revisions, or to whichever is the latest ready one."""
    return target.get("latestRevision") is True or text(target.get("revisionName")) in newest


def _percent(target: Mapping[str, Any]) -> int:
    return max(whole(target.get("percent")) or 0, 0)
