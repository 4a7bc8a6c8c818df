"""What the API server answers when it refuses: a `Status` object, in the words and codes of the real one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipway_sandbox.cluster.resources import KubeObject, Resource

REQUIRED = "Required value"
INVALID = "Invalid value"
FORBIDDEN = "Forbidden"
UNSUPPORTED = "Unsupported value"
TOO_MANY = "Too many"
_CAUSE_REASONS = {
    REQUIRED: "FieldValueRequired",
    INVALID: "FieldValueInvalid",
    FORBIDDEN: "FieldValueForbidden",
    UNSUPPORTED: "FieldValueNotSupported",
    TOO_MANY: "FieldValueTooMany",
}


class ApiError(Exception):
    """A request refused: `status` is the HTTP code, `message` for people, `reason` a word for machines or empty."""

    def __init__(self, status: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}

    def body(self) -> dict[str, Any]:
        """Return the `Status` object that goes over the wire."""
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.status,
        }
        if self.reason:
            body["reason"] = self.reason
        return {**body, "details": self.details} if self.details else body


class DecodingError(ApiError):
    """400: a body that is no object of its kind; `why` is what Go's decoder says of `obj`."""

    def __init__(self, resource: Resource, obj: KubeObject, why: str) -> None:
        message = (
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
        )
        super().__init__(400, "BadRequest", message)
        self.obj = obj
        self.why = why

    def of_patch(self) -> ApiError:
        """Return what is answered where a patch made the object so: 422, with the whole object in the message."""
        problem = f"{INVALID}: {json.dumps(json.dumps(self.obj))}: {self.why}"
        causes = [{"reason": _CAUSE_REASONS[INVALID], "message": problem, "field": "patch"}]
        return ApiError(422, "Invalid", f' "" is invalid: patch: {problem}', {"causes": causes})


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field: `path` as in `spec.containers[0].name`, `problem` one of the words
    above.
    """

    path: str
    problem: str
    detail: str = ""
    # What the cause is called where it is not what its problem is called.
    cause_reason: str = ""

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.problem}: {self.detail}" if self.detail else f"{self.path}: {self.problem}"
        )


def bad_request(message: str) -> ApiError:
    """Return the error 400: the request itself cannot be understood."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """Return the error 401: no token, or not the right one."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """Return the error 403: admission does not let the object in."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    message = f'{resource.qualified_plural} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _compact(details))


def not_found(resource: Resource, name: str) -> ApiError:
    """Return the error 404: there is no such object."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return ApiError(404, "NotFound", f'{resource.qualified_plural} "{name}" not found', _compact(details))


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return the error 409: another object has the name."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    message = f'{resource.qualified_plural} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _compact(details))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    """Return the error 409: the object is another one, or in another state, than the request says."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    message = f'Operation cannot be fulfilled on {resource.qualified_plural} "{name}": {why}'
    return ApiError(409, "Conflict", message, _compact(details))


def precondition_failed(resource: Resource, name: str, field: str, wanted: str, found: str) -> ApiError:
    """Return the error 409: a DELETE is about another object (`field` "UID") or state ("ResourceVersion")."""
    meanwhile = "deleted and then recreated" if field == "UID" else "modified"
    message = (
        f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": the {field} in the precondition '
        f"({wanted}) does not match the {field} in record ({found}). The object might have been {meanwhile}"
    )
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    return ApiError(409, "Conflict", message, _compact(details))


def denied_by_webhook(webhook: str, why: str, *, status: int = 403, reason: str = "Forbidden") -> ApiError:
    """Return the error by which an admission webhook refuses an object; by itself it gives a code and no reason."""
    return ApiError(status, reason, f'admission webhook "{webhook}" denied the request: {why}')


def expired(found: int, oldest: int) -> ApiError:
    """Return the error 410: the history does not reach back to the version of the watch."""
    return ApiError(410, "Expired", f"too old resource version: {found} ({oldest})")


def no_version(resource: Resource, name: str) -> ApiError:
    """Return the error 422: a replacement does not say of what version it is."""
    problem = FieldError("metadata.resourceVersion", INVALID, "0: must be specified for an update")
    return _invalid(resource.group, resource.plural, name, [problem])


def unknown_dry_run(options: str, value: str) -> ApiError:
    """Return the error 422: `options` (`CreateOptions` …) ask for another dry run than that of all."""
    problem = FieldError("dryRun", UNSUPPORTED, f'{json.dumps([value])}: supported values: "All"')
    return _invalid("meta.k8s.io", options, "", [problem])


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """Return the error 415: the body is in a format that this endpoint does not read."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def invalid(resource: Resource, name: str, problems: Sequence[FieldError]) -> ApiError:
    """Return the error 422: the object is wrong; `problems` holds at least one."""
    return _invalid(resource.group, resource.kind, name, problems)


def _invalid(group: str, kind: str, name: str, problems: Sequence[FieldError]) -> ApiError:
    summary = str(problems[0]) if len(problems) == 1 else f"[{', '.join(map(str, problems))}]"
    causes = [
        {
            "reason": problem.cause_reason or _CAUSE_REASONS[problem.problem],
            "message": f"{problem.problem}: {problem.detail}" if problem.detail else problem.problem,
            "field": problem.path,
        }
        for problem in problems
    ]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    qualified = f"{kind}.{group}" if group else kind
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {summary}', _compact(details))


def _compact(details: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in details.items() if value}
