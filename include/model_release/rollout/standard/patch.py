"""The merge patches of the Standard dialect.

`spec.canary` is a list, and a merge patch replaces a list whole: every patch here gives back what it does not
change, entry by entry, and carries the resourceVersion that was observed, so that it cannot drop what somebody
added meanwhile.

A canary of slipway's has a `minReplicas` of its own, as many as stable, for as long as it lives. Left out, KServe
derives its replicas from the percent and takes the pods away in the same breath as percent 0 is set, before the
route is changed. A ready canary's replicas are taken from stable's minReplicas, so that is raised by as many
while there is a canary: whatever the weight, stable could take everyone back.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from include.model_release.rollout.fields import STABLE_MIN_REPLICAS, mapping
from include.model_release.rollout.observation import Observed
from include.model_release.rollout.standard_view import CanaryEntry, StandardView, predictor_name

Json = dict[str, Any]

_REPLICAS = re.compile(r"[0-9]{1,9}")


def with_new_entry(
    observed: Observed, view: StandardView, storage_uri: str, percent: int, notes: Mapping[str, str]
) -> Json:
    """Return the patch that adds a canary of `storage_uri`."""
    replicas = max(view.min_replicas or 1, 1)
    raised = _raised(view, replicas)
    kept = {} if raised is None else {STABLE_MIN_REPLICAS: str(replicas)}
    model = copy.deepcopy(dict(mapping(view.predictor.get("model"))))
    entry = {
        "trafficPercent": percent,
        "predictor": {
            "name": predictor_name(storage_uri),
            "minReplicas": replicas,
            "annotations": {**notes, **kept},
            "model": {**model, "storageUri": storage_uri},
        },
    }
    predictor = {} if raised is None else {"minReplicas": raised}
    return _patch(observed, [*_bodies(view.canaries), entry], predictor)


def with_percent(observed: Observed, view: StandardView, entry: CanaryEntry, percent: int) -> Json:
    """Return the patch that gives one canary another weight."""
    changed = {**_copied(entry), "trafficPercent": percent}
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


def _raised(view: StandardView, replicas: int) -> int | None:
    """Return stable's minReplicas while there is a canary; None where KServe would take nothing away.

    It leaves stable one replica in any case. Where maxReplicas leaves no room, nothing can be done.
    """
    wanted = 2 * replicas
    if view.min_replicas is None or replicas == 1 or 0 < view.max_replicas < wanted:
        return None
    return wanted


def _lowered(view: StandardView, entry: CanaryEntry) -> Json:
    """Return stable's minReplicas as they were, unless somebody has changed them since."""
    before = entry.notes.get(STABLE_MIN_REPLICAS, "")
    if not _REPLICAS.fullmatch(before) or view.min_replicas != 2 * int(before):
        return {}
    return {"minReplicas": int(before)}


def _bodies(entries: Iterable[CanaryEntry], without: CanaryEntry | None = None) -> list[Json]:
    return [_copied(entry) for entry in entries if entry is not without]


def _copied(entry: CanaryEntry) -> Json:
    return copy.deepcopy(dict(entry.body))


def _patch(observed: Observed, canaries: list[Json], predictor: Json) -> Json:
    spec: Json = {"canary": canaries or None}
    if predictor:
        spec["predictor"] = predictor
    return {"metadata": {"resourceVersion": observed.resource_version}, "spec": spec}
