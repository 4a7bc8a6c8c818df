"""The merge patches of the Standard dialect.

`spec.canary` is a list, and a merge patch replaces a list whole: every patch here gives back what it does not
change, entry by entry, and carries the resourceVersion that was observed, so that it cannot drop what somebody
added meanwhile.

A canary of slipway's has a `minReplicas` of its own for as long as it lives: what its coming weight needs
(`capacity.py`). Left out, KServe derives its replicas from the percent, and takes pods away in the same breath as a
smaller percent is set, before the route is changed. A ready canary's replicas are taken from stable's minReplicas, so
that has as many more while there is a canary: whatever the weight, stable could take everyone back. Both change
in one patch. While the canary boots stable wants those few more, which must not make it unavailable: then KServe would
leave the routes as they are. So half of the pods wanted suffice (`maxUnavailable`), where the owner has not said
otherwise; this is no part of a pod template and restarts nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from slipway_core.rollout.dialects.standard.capacity import stable_replicas
from slipway_core.rollout.dialects.standard.replicas import number_in
from slipway_core.rollout.dialects.standard.view import CanaryEntry, StandardView, predictor_name
from slipway_core.rollout.fields import (
    FIRST_REPLICAS,
    ROLLING_UPDATE,
    STABLE_MIN_REPLICAS,
    STABLE_REPLICAS,
    mapping,
)
from slipway_core.rollout.observation import Observed

Json = dict[str, Any]

# Noted where stable has no minReplicas, so that it has none again.
_NO_MIN_REPLICAS = "none"


def with_new_entry(
    observed: Observed,
    view: StandardView,
    storage_uri: str,
    *,
    percent: int,
    replicas: int,
    notes: Mapping[str, str],
) -> Json:
    """Return the patch that adds a canary of `storage_uri` with so many replicas."""
    before = view.min_replicas
    numbers = {
        STABLE_MIN_REPLICAS: _NO_MIN_REPLICAS if before is None else str(before),
        STABLE_REPLICAS: str(stable_replicas(view)),
        FIRST_REPLICAS: str(replicas),
    }
    model = copy.deepcopy(dict(mapping(view.predictor.get("model"))))
    strategy = _strategy(view)
    entry = {
        "trafficPercent": percent,
        "predictor": {
            "name": predictor_name(storage_uri),
            "minReplicas": replicas,
            "annotations": {**notes, **numbers},
            "model": {**model, "storageUri": storage_uri},
            **copy.deepcopy(strategy),
        },
    }
    wanted = _while_canary(before, replicas, view)
    predictor = {**strategy, **({} if wanted == before else {"minReplicas": wanted})}
    return _patch(observed, [*_bodies(view.canaries), entry], predictor)


def with_replicas(observed: Observed, view: StandardView, entry: CanaryEntry, replicas: int) -> Json:
    """Return the patch that gives a canary so many replicas, and stable as many more than its own.

    What somebody else has set for stable stays where it is enough.
    """
    predictor = {**_copied(entry)["predictor"], "minReplicas": replicas}
    grown = {**_copied(entry), "predictor": predictor}
    wanted = _while_canary(_before(entry), replicas, view)
    if not is_ours(view, entry):
        wanted = max(view.min_replicas or 1, wanted or 1)
    changed = {} if wanted == view.min_replicas else {"minReplicas": wanted}
    return _patch(observed, [grown if one is entry else _copied(one) for one in view.canaries], changed)


def with_percent(
    observed: Observed,
    view: StandardView,
    entry: CanaryEntry,
    percent: int,
    notes: Mapping[str, str] | None = None,
) -> Json:
    """Return the patch that gives one canary another weight.

    :param notes: what is noted in it beside; that restarts its pods.
    """
    changed = {**_copied(entry), "trafficPercent": percent}
    if notes:
        changed["predictor"] = {**changed["predictor"], "annotations": {**entry.notes, **notes}}
    return _patch(observed, [changed if one is entry else _copied(one) for one in view.canaries], {})


def without_entry(observed: Observed, view: StandardView, entry: CanaryEntry) -> Json:
    """Return the patch that removes one canary and gives stable its own number of replicas again."""
    return _patch(observed, _bodies(view.canaries, without=entry), _lowered(view, entry))


def promoted(observed: Observed, view: StandardView, entry: CanaryEntry) -> Json:
    """Return the patch that makes a canary the stable predictor.

    It takes over the canary's name, so that its pods are kept as they are; with any other name KServe would
    start new ones.
    """
    canary = _copied(entry)["predictor"]
    taken_over = {key: canary[key] for key in ("name", "model", "annotations") if key in canary}
    predictor = {**taken_over, **_lowered(view, entry)}
    return _patch(observed, _bodies(view.canaries, without=entry), predictor)


def is_ours(view: StandardView, entry: CanaryEntry) -> bool:
    """Return whether stable's minReplicas are what slipway has made them for this canary."""
    return view.min_replicas == _while_canary(_before(entry), entry.min_replicas, view)


def leaves_too_few(view: StandardView, entry: CanaryEntry, replicas: int) -> bool:
    """Return whether somebody has set stable's minReplicas so that a canary of `replicas` would leave it too few."""
    return not is_ours(view, entry) and (view.min_replicas or 1) - replicas < (_before(entry) or 1)


def _while_canary(before: int | None, replicas: int, view: StandardView) -> int | None:
    """Return stable's minReplicas while a canary has `replicas`: those that KServe takes away once it is ready.

    It leaves stable one in any case. There are never more than maxReplicas.
    """
    least = max(before or 1, 1)
    if least == replicas == 1:
        return before
    wanted = least + replicas
    return min(wanted, max(view.max_replicas, least)) if view.max_replicas else wanted


def _before(entry: CanaryEntry) -> int | None:
    """Return stable's minReplicas as noted; None if it had none."""
    return number_in(entry.notes.get(STABLE_MIN_REPLICAS, ""))


def _lowered(view: StandardView, entry: CanaryEntry) -> Json:
    """Return stable's minReplicas as they were, unless nothing is known of that or somebody has changed them since."""
    before = _before(entry)
    is_noted = before is not None or entry.notes.get(STABLE_MIN_REPLICAS) == _NO_MIN_REPLICAS
    if not is_noted or before == view.min_replicas or not is_ours(view, entry):
        return {}
    return {"minReplicas": before}


def _strategy(view: StandardView) -> Json:
    """Return slipway's `deploymentStrategy`, together with what the owner has said; nothing if that says enough."""
    strategy = mapping(view.predictor.get("deploymentStrategy"))
    rolling = mapping(strategy.get("rollingUpdate"))
    if strategy.get("type", "RollingUpdate") != "RollingUpdate" or "maxUnavailable" in rolling:
        return {}
    return {
        "deploymentStrategy": {
            **strategy,
            "type": "RollingUpdate",
            "rollingUpdate": {**rolling, **ROLLING_UPDATE},
        }
    }


def _bodies(entries: Iterable[CanaryEntry], without: CanaryEntry | None = None) -> list[Json]:
    return [_copied(entry) for entry in entries if entry is not without]


def _copied(entry: CanaryEntry) -> Json:
    return copy.deepcopy(dict(entry.body))


def _patch(observed: Observed, canaries: list[Json], predictor: Json) -> Json:
    spec: Json = {"canary": canaries or None}
    if predictor:
        spec["predictor"] = predictor
    return {"metadata": {"resourceVersion": observed.resource_version}, "spec": spec}
