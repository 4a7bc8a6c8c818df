"""Structural schemas: what fields an object may have and of what type, and a check that names what is wrong.

As in Kubernetes, an unknown field is no error: it is dropped, and the client is warned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from include.sandbox.cluster.errors import INVALID, REQUIRED, UNSUPPORTED, FieldError


@dataclass(frozen=True)
class Scalar:
    """A single value: `type` is `string`, `integer`, `boolean` or `integer or string`.

    `layout`, as Go writes it, is the only form that a time may have; `pattern` is what fits it.
    """

    type: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    layout: str = ""
    pattern: str = ""


@dataclass(frozen=True)
class ListOf:
    """An array of values of one shape."""

    item: Schema


@dataclass(frozen=True)
class MapOf:
    """An object with any keys and values of one shape."""

    value: Schema


@dataclass(frozen=True)
class Record:
    """An object with the fields named here and no others."""

    fields: Mapping[str, Schema]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Anything:
    """A part that is not looked into; `type` is `object`, `array` or empty for whatever comes."""

    type: str = ""


Schema: TypeAlias = Scalar | ListOf | MapOf | Record | Anything
STRING, INTEGER, BOOLEAN = Scalar("string"), Scalar("integer"), Scalar("boolean")
# Six digits of a second, no fewer: what writes whole seconds without them is refused.
MICRO_TIME = Scalar(
    "string",
    layout="2006-01-02T15:04:05.000000Z07:00",
    pattern=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)",
)
INTEGER_OR_STRING = Scalar("integer or string")
OBJECT, ARRAY, ANYTHING = Anything("object"), Anything("array"), Anything()


@dataclass
class Findings:
    """What a check found: wrong types, wrong values, and the paths of fields that the schema does not know."""

    types: list[FieldError] = field(default_factory=list)
    values: list[FieldError] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def pruned(value: Any, schema: Schema, path: str, findings: Findings) -> Any:
    """Return a copy of `value` without unknown fields; what is wrong with it is added to `findings`."""
    expected = _expected_type(schema)
    found = type_name(value)
    if expected and found not in expected.split(" or "):
        detail = f'"{found}": {path} in body must be of type {expected}: "{found}"'
        findings.types.append(FieldError(path, INVALID, detail))
        return value
    if isinstance(schema, Record):
        return _pruned_record(value, schema, path, findings)
    if isinstance(schema, MapOf):
        return {key: pruned(item, schema.value, f"{path}.{key}", findings) for key, item in value.items()}
    if isinstance(schema, ListOf):
        return [pruned(item, schema.item, f"{path}[{i}]", findings) for i, item in enumerate(value)]
    if isinstance(schema, Scalar):
        if schema.layout and not re.fullmatch(schema.pattern, value):
            detail = f'parsing time "{value}" as "{schema.layout}": cannot parse "{value}"'
            findings.types.append(FieldError(path, INVALID, detail))
        findings.values.extend(_range_errors(value, schema, path))
    return value


def _pruned_record(value: Mapping[str, Any], schema: Record, path: str, findings: Findings) -> dict[str, Any]:
    kept = {}
    for key, item in value.items():
        if key in schema.fields:
            kept[key] = pruned(item, schema.fields[key], _join(path, key), findings)
        else:
            findings.unknown.append(_join(path, key))
    findings.values.extend(
        FieldError(_join(path, key), REQUIRED) for key in schema.required if value.get(key) in (None, "", [])
    )
    return kept


def _range_errors(value: Any, schema: Scalar, path: str) -> list[FieldError]:
    if schema.minimum is not None and value < schema.minimum:
        detail = f"{value}: {path} in body should be greater than or equal to {schema.minimum}"
        return [FieldError(path, INVALID, detail)]
    if schema.maximum is not None and value > schema.maximum:
        detail = f"{value}: {path} in body should be less than or equal to {schema.maximum}"
        return [FieldError(path, INVALID, detail)]
    if schema.choices and value not in schema.choices:
        supported = ", ".join(f'"{choice}"' for choice in schema.choices)
        return [FieldError(path, UNSUPPORTED, f'"{value}": supported values: {supported}')]
    return []


def _expected_type(schema: Schema) -> str:
    if isinstance(schema, Scalar | Anything):
        return schema.type
    return "array" if isinstance(schema, ListOf) else "object"


def type_name(value: Any) -> str:
    """Return JSON's word for the type of a decoded value; a number without a fraction is an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
