"""Find a resource by its name or by an object of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.resources import RESOURCES, Resource

_BY_PLURAL = {resource.plural: resource for resource in RESOURCES}


def resource_named(plural: str) -> Resource:
    """Return the resource called `plural`.

    :raises ApiError: 404, the emulator has none of that name.
    """
    try:
        return _BY_PLURAL[plural]
    except KeyError:
        known = ", ".join(sorted(_BY_PLURAL))
        raise ApiError(
            404, "NotFound", f"the emulator has no resource {plural!r}; it has {known}", {"kind": plural}
        ) from None


def resource_of(obj: Mapping[str, Any]) -> Resource:
    """Return the resource that `obj` is one of, by its apiVersion and kind.

    :raises ApiError: 400, there is no such resource.
    """
    for resource in RESOURCES:
        if obj.get("kind") == resource.kind and obj.get("apiVersion") == resource.api_version:
            return resource
    raise ApiError(
        400, "BadRequest", f'no kind "{obj.get("kind")}" is registered for version "{obj.get("apiVersion")}"'
    )
