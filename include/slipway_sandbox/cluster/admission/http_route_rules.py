"""What Gateway API's schema of an HTTPRoute fills in, and the rule that it has in CEL."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from slipway_sandbox.cluster.errors import INVALID, REQUIRED, TOO_MANY, FieldError
from slipway_sandbox.cluster.resources import KubeObject

# What CEL cannot look at: its rules are then left out, and that is said.
_BLOCKING = frozenset({REQUIRED, TOO_MANY})
_UNCHECKED = FieldError(
    "<nil>",
    INVALID,
    "null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def with_route_defaults(route: KubeObject) -> KubeObject:
    """Return a copy of `route` in which what was left out has the value that the schema gives it."""
    route = deepcopy(route)
    spec = route["spec"]
    for parent in spec.get("parentRefs") or ():
        _set_defaults(parent, group="gateway.networking.k8s.io", kind="Gateway")
    for rule in spec.get("rules") or ():
        rule.setdefault("matches", [{"path": {}}])
        for match in rule["matches"]:
            _set_defaults(match.setdefault("path", {}), type="PathPrefix", value="/")
        for backend in rule.get("backendRefs") or ():
            _set_defaults(backend, group="", kind="Service", weight=1)
    return route


def route_problems(route: KubeObject, by_schema: list[FieldError]) -> list[FieldError]:
    """Return everything wrong with a route: what the schema found, and what CEL finds where it can look."""
    if any(problem.problem in _BLOCKING for problem in by_schema):
        return with_rules_unchecked(by_schema)
    return [*by_schema, *_portless_services(route)]


def with_rules_unchecked(by_schema: list[FieldError]) -> list[FieldError]:
    """Return what the schema found, and that CEL's rules could not be looked at."""
    return [*by_schema, _UNCHECKED]


def _portless_services(route: KubeObject) -> Iterator[FieldError]:
    for number, rule in enumerate(route["spec"].get("rules") or ()):
        for index, backend in enumerate(rule.get("backendRefs") or ()):
            if (backend["group"], backend["kind"]) == ("", "Service") and "port" not in backend:
                path = f"spec.rules[{number}].backendRefs[{index}]"
                yield FieldError(path, INVALID, "Must have port for Service reference")


def _set_defaults(part: dict[str, Any], **values: Any) -> None:
    for key, value in values.items():
        part.setdefault(key, value)
