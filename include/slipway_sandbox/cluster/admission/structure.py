"""Structural schemas: what fields an object may have and of what type, and a check that names what is wrong.

As in Kubernetes, an unknown field is no error: it is dropped, and the client is warned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from slipway_sandbox.cluster.errors import INVALID, REQUIRED, TOO_MANY, UNSUPPORTED, FieldError


@dataclass(frozen=True)
class Scalar:
    """A single value: `type` is `string`, `integer`, `boolean` or `integer or string`.

    `micro_time`: a time with six digits of a second. `pattern`: what the whole of a text must match.
    """

    type: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    micro_time: bool = False
    pattern: str = ""


@dataclass(frozen=True)
class ListOf:
    """An array of values of one shape, at most `max_items` of them where that is given."""

    item: Schema
    max_items: int | None = None


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
MICRO_TIME = Scalar("string", micro_time=True)
INTEGER_OR_STRING = Scalar("integer or string")
_MICRO_TIME_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
# The parts of a time, as Go's layout writes each, and what fits it.
_MICRO_TIME_ELEMENTS = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d{2}"),
    ("-", "-"),
    ("02", r"\d{2}"),
    ("T", "T"),
    ("15", r"\d{2}"),
    (":", ":"),
    ("04", r"\d{2}"),
    (":", ":"),
    ("05", r"\d{2}"),
    (".000000", r"\.\d{6}(?!\d)"),
    ("Z07:00", r"Z|[+-]\d{2}:\d{2}"),
)
OBJECT, ARRAY, ANYTHING = Anything("object"), Anything("array"), Anything()


@dataclass(frozen=True)
class TypeProblem:
    """A part that is of another type than its schema says: what Go's decoder stops at.

    `why` is what the decoder says of a text that is not the time it should be; `map_path` is where the map stands that
    it is a value of, in which Go does not name the key.
    """

    path: str
    schema: Schema
    value: Any
    why: str = ""
    map_path: str = ""

    @property
    def expected(self) -> str:
        """JSON's word for the type that it should be of."""
        return _expected_type(self.schema)

    def field_error(self) -> FieldError:
        """Return the problem in the words of a check by schema, as for a custom resource."""
        found = type_name(self.value)
        detail = f'"{found}": {self.path} in body must be of type {self.expected}: "{found}"'
        return FieldError(self.path, INVALID, detail, "FieldValueTypeInvalid")


@dataclass
class Findings:
    """What a check found: wrong types, wrong values, and the paths of fields that the schema does not know.

    `empty_is_missing`: what is required may not be empty, as for built-in types; a custom resource's schema asks for
    the field alone.
    """

    empty_is_missing: bool = True
    types: list[TypeProblem] = field(default_factory=list)
    values: list[FieldError] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def pruned(value: Any, schema: Schema, path: str, findings: Findings) -> Any:
    """Return a copy of `value` without unknown fields; what is wrong with it is added to `findings`."""
    expected = _expected_type(schema)
    found = type_name(value)
    if expected and found not in expected.split(" or "):
        findings.types.append(TypeProblem(path, schema, value))
        return value
    if isinstance(schema, Record):
        return _pruned_record(value, schema, path, findings)
    if isinstance(schema, MapOf):
        return _pruned_map(value, schema, path, findings)
    if isinstance(schema, ListOf):
        findings.values.extend(_length_errors(value, schema, path))
        return [pruned(item, schema.item, f"{path}[{i}]", findings) for i, item in enumerate(value)]
    if isinstance(schema, Scalar):
        if schema.micro_time and (why := time_problem(value)):
            findings.types.append(TypeProblem(path, schema, value, why))
        findings.values.extend(_range_errors(value, schema, path))
    return value


def _pruned_map(value: Mapping[str, Any], schema: MapOf, path: str, findings: Findings) -> dict[str, Any]:
    known = len(findings.types)
    kept = {key: pruned(item, schema.value, f"{path}.{key}", findings) for key, item in value.items()}
    findings.types[known:] = [replace(one, map_path=one.map_path or path) for one in findings.types[known:]]
    return kept


def _pruned_record(value: Mapping[str, Any], schema: Record, path: str, findings: Findings) -> dict[str, Any]:
    kept = {}
    for key, item in value.items():
        if key in schema.fields:
            kept[key] = pruned(item, schema.fields[key], _join(path, key), findings)
        else:
            findings.unknown.append(_join(path, key))
    missing = (None, "", []) if findings.empty_is_missing else (None,)
    findings.values.extend(
        FieldError(_join(path, key), REQUIRED) for key in schema.required if value.get(key) in missing
    )
    return kept


def time_problem(text: str) -> str:
    """Return what Go says of a text that isn't a time with six digits of a second; "" if it is one."""
    rest = text
    for element, pattern in _MICRO_TIME_ELEMENTS:
        found = re.match(pattern, rest)
        if found is None:
            return f'parsing time "{text}" as "{_MICRO_TIME_LAYOUT}": cannot parse "{rest}" as "{element}"'
        rest = rest[found.end() :]
    if rest:
        return f'parsing time "{text}": extra text: "{rest}"'
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return f'parsing time "{text}": out of range'
    return ""


def without_bounds(schema: Schema) -> Schema:
    """Return a schema that has the same types and lets every value through, as one made from Go's types does."""
    if isinstance(schema, Scalar):
        return Scalar(schema.type)
    if isinstance(schema, ListOf):
        return ListOf(without_bounds(schema.item))
    if isinstance(schema, MapOf):
        return MapOf(without_bounds(schema.value))
    if isinstance(schema, Record):
        return Record({key: without_bounds(one) for key, one in schema.fields.items()}, schema.required)
    return schema


def _length_errors(value: list[Any], schema: ListOf, path: str) -> list[FieldError]:
    if schema.max_items is None or len(value) <= schema.max_items:
        return []
    return [FieldError(path, TOO_MANY, f"{len(value)}: must have at most {schema.max_items} items")]


def _range_errors(value: Any, schema: Scalar, path: str) -> list[FieldError]:
    if schema.minimum is not None and value < schema.minimum:
        detail = f"{value}: {path} in body should be greater than or equal to {schema.minimum}"
        return [FieldError(path, INVALID, detail)]
    if schema.maximum is not None and value > schema.maximum:
        detail = f"{value}: {path} in body should be less than or equal to {schema.maximum}"
        return [FieldError(path, INVALID, detail)]
    if schema.pattern and not re.fullmatch(schema.pattern, value):
        detail = f"\"{value}\": {path} in body should match '^{schema.pattern}$'"
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
