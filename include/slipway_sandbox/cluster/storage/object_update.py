"""What an update may change of a stored object."""

from __future__ import annotations

import json
from copy import deepcopy

from slipway_sandbox.cluster.errors import INVALID, ApiError, FieldError, bad_request, conflict, invalid
from slipway_sandbox.cluster.resource_lookup import resource_of
from slipway_sandbox.cluster.resources import KubeObject, Resource

_SERVER_OWNED = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_MODIFIED_MEANWHILE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def check_identity(resource: Resource, before: KubeObject, new: KubeObject) -> None:
    """Check that `new` is about the stored object `before`, as it is now.

    :raises ApiError: 400, it is about another object; 409, about a state that is no longer; 422, it has another
        uid; 500, its resourceVersion isn't a number.
    """
    own, given = before["metadata"], new.get("metadata")
    if not isinstance(given, dict):
        raise bad_request("metadata: expected an object")
    if resource_of(new) != resource:
        raise bad_request(f"the object is not a {resource.kind}")
    for field in ("name", "namespace"):
        if given.get(field) and given[field] != own.get(field):
            raise bad_request(
                f"the {field} of the object ({given[field]}) does not match "
                f"the {field} on the URL ({own.get(field)})"
            )
    version = given.get("resourceVersion")
    if isinstance(version, str) and version and not version.isdecimal():
        raise ApiError(500, "", f"strconv.ParseUint: parsing {json.dumps(version)}: invalid syntax")
    if version and version != own["resourceVersion"]:
        raise conflict(resource, own["name"], _MODIFIED_MEANWHILE)
    if given.get("uid") and given["uid"] != own["uid"]:
        detail = f"{json.dumps(given['uid'])}: field is immutable"
        raise invalid(resource, own["name"], [FieldError("metadata.uid", INVALID, detail)])


def updated(resource: Resource, before: KubeObject, new: KubeObject, subresource: str | None) -> KubeObject:
    """Return `before` with what `new` may change of it.

    :param subresource: "status": only the status changes; None: all but the status, of a resource that has one.
    """
    after = new
    if subresource == "status":
        after = {**deepcopy(before), "status": new.get("status", {})}
    elif resource.has_status:
        after = {key: value for key, value in new.items() if key != "status"}
        if "status" in before:
            after["status"] = deepcopy(before["status"])
    own = {key: before["metadata"][key] for key in _SERVER_OWNED if key in before["metadata"]}
    given = {key: value for key, value in after["metadata"].items() if key not in _SERVER_OWNED}
    after["metadata"] = {**given, **own}
    return after


def essence(obj: KubeObject) -> KubeObject:
    """Return the part of an object whose change is a new generation."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
