"""Which versions an object of the cluster names, wherever in it: more rather than fewer.

An InferenceService names a version where it serves it, as stable or as canary, in the annotations for the way back, in
what `kubectl apply` has kept, and where a later version of KServe may name it. So every text of the object is looked
at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slipway_core.rollout.fields import STABLE_VERSION, VERSION, mapping, text

_NAMED = re.compile(r"models/(?P<model>[^/\s\"'\\]+)/(?P<version>[0-9]{1,18})(?![0-9])")
_NUMBER = re.compile(r"[0-9]{1,18}")


def versions_named(model: str, service: Mapping[str, Any], *, is_own: bool = False) -> dict[int, str]:
    """Return the versions of the model that an InferenceService names, each with the place where it was found.

    :param is_own: it is the one that the model's release file names, so the numbers in its annotations are the model's.
    """
    found: dict[int, str] = {}
    for place, value in _texts(service):
        for match in _NAMED.finditer(value):
            if match["model"] == model:
                found.setdefault(int(match["version"]), place)
    if found or is_own:
        annotations = mapping(mapping(service.get("metadata")).get("annotations"))
        for key in (VERSION, STABLE_VERSION):
            value = text(annotations.get(key))
            if _NUMBER.fullmatch(value):
                found.setdefault(int(value), f"metadata.annotations.{key}")
    return found


def staged_versions(model: str, keys: Iterable[str]) -> set[int]:
    """Return the versions of the model among the keys below `staging/`, whatever they are called there."""
    parts = (key.split("/") for key in keys)
    return {
        int(part[2])
        for part in parts
        if len(part) > 3 and _is_staged_of(model, part[1]) and _NUMBER.fullmatch(part[2])
    }


def _is_staged_of(model: str, folder: str) -> bool:
    return folder == model or folder.startswith(f"{model}_")


def _texts(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each text of the object, keys too, with its place. Without recursion: anybody may nest an object."""
    waiting: list[tuple[str, Any]] = [("", service)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            for key, item in value.items():
                below = f"{place}.{key}" if place else str(key)
                yield below, str(key)
                waiting.append((below, item))
        elif isinstance(value, list | tuple):
            waiting.extend((place, item) for item in value)
