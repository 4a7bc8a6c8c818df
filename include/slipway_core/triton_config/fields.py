"""The fields of Triton's ModelConfig, read from the protocol's own descriptors.

A field that a newer Triton adds is known when tritonclient is updated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

ROOT = "ModelConfig"
_PACKAGE = "inference."

Form = Literal["one", "list", "map"]
# As protobuf writes 64 bits.
_WHOLE = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True)
class FieldKind:
    """What a field holds.

    `scalar` is `text`, `bool`, `int`, `float`, `double` or `enum`, and empty for a message, whose name is in `message`.
    A `map` has keys of the user's own choosing. `zero` is the value that equals leaving the field out. The mere
    presence of a field that is `in_oneof` says something.
    """

    form: Form
    scalar: str
    message: str
    zero: Any
    in_oneof: bool


@cache
def fields_of(message: str) -> Mapping[str, FieldKind]:
    """Return the fields of a message (`ModelInput`, `ModelVersionPolicy.Latest`) by their names.

    :raises KeyError: where ModelConfig has no such message.
    """
    # Whoever reads a configuration needs these; a parse of a DAG does not.
    from tritonclient.grpc import model_config_pb2

    found = model_config_pb2.DESCRIPTOR.pool.FindMessageTypeByName(_PACKAGE + message)
    return {field.name: _kind(field) for field in found.fields}


def _kind(field: Any) -> FieldKind:
    """Return the kind of a field; `field` is a protobuf FieldDescriptor."""
    in_oneof, below = field.containing_oneof is not None, field.message_type
    form: Form = "list" if field.is_repeated else "one"
    if below is not None and below.GetOptions().map_entry:
        form, field = "map", below.fields_by_name["value"]
    if field.message_type is not None:
        return FieldKind(form, "", field.message_type.full_name.removeprefix(_PACKAGE), None, in_oneof)
    if field.enum_type is not None:
        return FieldKind(form, "enum", "", field.enum_type.values[0].name, in_oneof)
    scalars = {
        field.CPPTYPE_STRING: ("text", ""),
        field.CPPTYPE_BOOL: ("bool", False),
        field.CPPTYPE_FLOAT: ("float", 0.0),
        field.CPPTYPE_DOUBLE: ("double", 0.0),
    }
    scalar, zero = scalars.get(field.cpp_type, ("int", 0))
    return FieldKind(form, scalar, "", zero, in_oneof)


def with_numbers(config: Mapping[str, Any], message: str = ROOT) -> dict[str, Any]:
    """Return a copy of `config` with the 64-bit numbers that protobuf's JSON writes as text as numbers.

    A field that the message does not have is kept as it is.
    """
    fields = fields_of(message)
    return {
        str(name): _numbered(value, fields[name]) if name in fields else value
        for name, value in config.items()
    }


def _numbered(value: Any, kind: FieldKind) -> Any:
    if isinstance(value, Mapping) and kind.form == "map":
        return {str(key): _numbered_one(item, kind) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbered_one(item, kind) for item in value]
    return _numbered_one(value, kind)


def _numbered_one(value: Any, kind: FieldKind) -> Any:
    if kind.message and isinstance(value, Mapping):
        return with_numbers(value, kind.message)
    if kind.scalar == "int" and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return value
