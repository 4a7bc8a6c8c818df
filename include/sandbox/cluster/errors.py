"""What the API server answers when it refuses: a `Status` object, in the words and codes of the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from include.sandbox.cluster.resources import Resource

REQUIRED = "Required value"
INVALID = "Invalid value"
FORBIDDEN = "Forbidden"
UNSUPPORTED = "Unsupported value"
_CAUSE_REASONS = {
    REQUIRED: "FieldValueRequired",
    INVALID: "FieldValueInvalid",
    FORBIDDEN: "FieldValueForbidden",
    UNSUPPORTED: "FieldValueNotSupported",
}


class ApiError(Exception):
    """A request refused: `status` is the HTTP code, `reason` the machine's word, `message` the person's."""

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
            "reason": self.reason,
            "code": self.status,
        }
        return {**body, "details": self.details} if self.details else body


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field: `path` as in `spec.containers[0].name`, `problem` one of the words
    above.
    """

    path: str
    problem: str
    detail: str = ""

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


def expired(found: int, oldest: int) -> ApiError:
    """Return the error 410: the history does not reach back to the version of the watch."""
    return ApiError(410, "Expired", f"too old resource version: {found} ({oldest})")


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
    summary = str(problems[0]) if len(problems) == 1 else f"[{', '.join(map(str, problems))}]"
    causes = [
        {
            "reason": _CAUSE_REASONS[problem.problem],
            "message": f"{problem.problem}: {problem.detail}" if problem.detail else problem.problem,
            "field": problem.path,
        }
        for problem in problems
    ]
    details = {"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}
    message = f'{resource.qualified_kind} "{name}" is invalid: {summary}'
    return ApiError(422, "Invalid", message, _compact(details))


def _compact(details: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in details.items() if value}
