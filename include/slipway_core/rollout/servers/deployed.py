"""How an InferenceService differs from what the release file says of its servers.

A release changes the model of what is deployed, and nothing else: what a person has set there stays. So if the release
file says something else, the difference is reported; it takes effect when somebody changes the InferenceService.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.rollout.dialects.registry import dialect_of
from slipway_core.rollout.fields import mapping
from slipway_core.spec.parts import size_of

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_SHOWN = 160
# A field of the predictor by the key of the release file's `rollout`.
_PREDICTOR = {
    "serviceAccountName": "service_account",
    "minReplicas": "min_replicas",
    "maxReplicas": "max_replicas",
    "nodeSelector": "node_selector",
    "tolerations": "tolerations",
    "affinity": "affinity",
    "priorityClassName": "priority_class",
    "runtimeClassName": "runtime_class",
    "imagePullSecrets": "image_pull_secrets",
}
_MODEL = {"runtime": "runtime", "runtimeVersion": "runtime_version"}


def deployed_otherwise(wanted: Mapping[str, Any], predictor: Mapping[str, Any], mode: str) -> tuple[str, ...]:
    """Return in words where what is deployed is not what the release file would deploy; () where it is.

    :param wanted: the manifest of a first deployment by the release file.
    :param predictor: that of the InferenceService as the API has it, without a canary.
    :param mode: its deployment mode.
    """
    return tuple(_differences(wanted, predictor, mode))


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any], mode: str) -> Iterator[str]:
    asked_mode = dialect_of(wanted).name
    if mode != asked_mode:
        yield f"`deployment_mode` is {mode}, in the release file {asked_mode}"
    asked = mapping(mapping(wanted.get("spec")).get("predictor"))
    for field, key in _PREDICTOR.items():
        if not _same(asked.get(field), found.get(field)):
            yield _difference(key, found.get(field), asked.get(field))
    asked, found = (mapping(one.get("model")) for one in (asked, found))
    for field, key in _MODEL.items():
        if not _same(asked.get(field), found.get(field)):
            yield _difference(key, found.get(field), asked.get(field))
    for kind in ("requests", "limits"):
        ours, theirs = (mapping(mapping(one.get("resources")).get(kind)) for one in (asked, found))
        for name in sorted({*ours, *theirs}):
            if not _same(ours.get(name), theirs.get(name)):
                yield _difference(f"resources ({kind}, {name})", theirs.get(name), ours.get(name))


def _same(asked: Any, found: Any) -> bool:
    if not asked and not found:
        return True
    one, other = _amount(asked), _amount(found)
    if one is None or other is None:
        return bool(asked == found)
    return bool(one == other)


def _amount(value: Any) -> Any:
    """Return a quantity as a number: the API server may write 1024Mi as 1Gi."""
    found = str(value)
    if isinstance(value, str | int) and not isinstance(value, bool) and _QUANTITY.fullmatch(found):
        return size_of(found)
    return None


def _difference(key: str, found: Any, asked: Any) -> str:
    return f"`{key}` is {_shown(found)}, in the release file {_shown(asked)}"


def _shown(value: Any) -> str:
    if not value:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
