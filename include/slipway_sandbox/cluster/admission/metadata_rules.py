"""Kubernetes' rules for names, labels and annotations, in the words of its validation."""

from __future__ import annotations

import re

from slipway_sandbox.cluster.errors import INVALID, REQUIRED, FieldError, invalid
from slipway_sandbox.cluster.resources import NAMESPACES, KubeObject, Resource

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_MAX_CHARS = 63
_KEY_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN_FORM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_DNS_SUBDOMAIN.pattern}')"
)
_NAME_MAX_CHARS = 253
_ANNOTATIONS_MAX_BYTES = 256 * 1024


def metadata_problems(resource: Resource, obj: KubeObject) -> list[FieldError]:
    """Return everything wrong with an object's name, labels and annotations."""
    metadata = obj.get("metadata", {})
    problems = _name_problems(resource, str(metadata.get("name", "")))
    for key, value in metadata.get("labels", {}).items():
        problems += _key_problems("metadata.labels", key) + _label_problems(value)
    annotations = metadata.get("annotations", {})
    for key in annotations:
        problems += _key_problems("metadata.annotations", key)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_MAX_BYTES:
        detail = f"may not be more than {_ANNOTATIONS_MAX_BYTES} bytes"
        problems.append(FieldError("metadata.annotations", INVALID, detail))
    return problems


def check_namespace_name(name: str) -> None:
    """Raise ApiError 422 when `name` cannot be a namespace's."""
    if not _DNS_LABEL.fullmatch(name):
        detail = f'"{name}": a namespace must be a lowercase RFC 1123 label'
        raise invalid(NAMESPACES, name, [FieldError("metadata.namespace", INVALID, detail)])


def _label_problems(value: str) -> list[FieldError]:
    if len(value) > _LABEL_MAX_CHARS:
        detail = f'"{value}": must be no more than {_LABEL_MAX_CHARS} bytes'
    elif not _LABEL_VALUE.fullmatch(value):
        detail = (
            f'"{value}": a valid label must be an empty string or consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character "
            f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE.pattern}')"
        )
    else:
        return []
    return [FieldError("metadata.labels", INVALID, detail)]


def _name_problems(resource: Resource, name: str) -> list[FieldError]:
    if not name:
        return [FieldError("metadata.name", REQUIRED, "name or generateName is required")]
    pattern = _DNS_LABEL if resource == NAMESPACES else _DNS_SUBDOMAIN
    if len(name) > _NAME_MAX_CHARS:
        detail = f'"{name}": must be no more than {_NAME_MAX_CHARS} characters'
    elif not pattern.fullmatch(name):
        detail = f'"{name}": {_SUBDOMAIN_FORM}'
    else:
        return []
    return [FieldError("metadata.name", INVALID, detail)]


def _key_problems(path: str, key: str) -> list[FieldError]:
    found = _key_problem(key)
    return [FieldError(path, INVALID, f'"{key}": {found}')] if found else []


def _key_problem(key: str) -> str:
    """Return what is wrong with the key of a label or an annotation; "" if nothing is."""
    form = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
        f"regex used for validation is '{_KEY_NAME.pattern}')"
    )
    prefix, separator, name = key.rpartition("/")
    if "/" in prefix:
        return f"a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    if separator and not _DNS_SUBDOMAIN.fullmatch(prefix):
        return f"prefix part {_SUBDOMAIN_FORM}" if prefix else "prefix part must be non-empty"
    if len(name) > _LABEL_MAX_CHARS:
        return f"name part must be no more than {_LABEL_MAX_CHARS} bytes"
    return "" if _KEY_NAME.fullmatch(name) else f"name part {form}"
