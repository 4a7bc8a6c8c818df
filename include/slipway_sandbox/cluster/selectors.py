"""Label and field selectors: what a list or a watch is narrowed to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slipway_sandbox.cluster.errors import bad_request
from slipway_sandbox.cluster.resources import EVENTS, PODS, Resource

Matcher = Callable[[Mapping[str, Any]], bool]

_KEY = r"(?P<key>(?:[a-z0-9.-]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|"
_EXISTS = re.compile(rf"\s*(?P<negated>!?)\s*{_KEY}\s*")
_EQUALS = re.compile(rf"\s*{_KEY}\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})\s*")
_AMONG = re.compile(rf"\s*{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)\s*")
_COMPARES = re.compile(rf"\s*{_KEY}\s*(?P<operator>[<>])\s*(?P<value>-?\d+)\s*")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")

_FIELDS: dict[Resource, frozenset[str]] = {
    PODS: frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
        }
    ),
    EVENTS: frozenset(
        {
            f"involvedObject.{field}"
            for field in ("kind", "namespace", "name", "uid", "apiVersion", "fieldPath")
        }
        | {"reason", "type", "source", "reportingComponent"}
    ),
}
_COMMON_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


def label_matcher(selector: str | None) -> Matcher:
    """Return a test of an object's labels for `a=b,c!=d,e in (f,g),!h,i>3`; everything matches an empty selector.

    :raises ApiError: 400, for a selector that does not parse.
    """
    if not selector or not selector.strip():
        return lambda obj: True
    tests = [_label_test(part) for part in _COMMA_OUTSIDE_PARENTHESES.split(selector)]

    def matches(obj: Mapping[str, Any]) -> bool:
        labels = obj.get("metadata", {}).get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _EXISTS.fullmatch(part):
        key, wanted = found["key"], not found["negated"]
        return lambda labels: (key in labels) is wanted
    if found := _EQUALS.fullmatch(part):
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            # An object without the label matches too, as in Kubernetes.
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _AMONG.fullmatch(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        among = found["operator"] == "in"
        return lambda labels: (labels.get(key) in values) is among
    if found := _COMPARES.fullmatch(part):
        key, bound, greater = found["key"], int(found["value"]), found["operator"] == ">"
        return lambda labels: _compares(labels.get(key), bound, greater=greater)
    key = _EXISTS.match(part)
    found_word = (part[key.end() :] if key else part).split(" ", 1)[0]
    raise bad_request(
        f"unable to parse requirement: found '{found_word}', expected: in, notin, =, ==, !=, gt, lt"
    )


def _compares(value: str | None, bound: int, *, greater: bool) -> bool:
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > bound if greater else int(value) < bound


def field_matcher(resource: Resource, selector: str | None) -> Matcher:
    """Return a test of an object's fields for `metadata.name=x,status.phase!=Failed`.

    :raises ApiError: 400, for a field that cannot be selected by, and for what does not parse.
    """
    if not selector or not selector.strip():
        return lambda obj: True
    allowed = _COMMON_FIELDS | _FIELDS.get(resource, frozenset())
    tests: list[tuple[list[str], str, bool]] = []
    for part in selector.split(","):
        found = re.fullmatch(r"\s*([A-Za-z.]+)\s*(==|=|!=)\s*(.*?)\s*", part)
        if not found:
            raise bad_request(f"invalid selector: {part!r}; can't understand {selector!r}")
        if found[1] not in allowed:
            raise bad_request(f"field label not supported: {found[1]}")
        tests.append((found[1].split("."), found[3], found[2] != "!="))
    return lambda obj: all((_field(obj, path) == value) is wanted for path, value, wanted in tests)


def _field(obj: Any, path: list[str]) -> str:
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return "" if obj is None else str(obj)
