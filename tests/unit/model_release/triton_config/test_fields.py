"""The table of ModelConfig's fields, held against the protocol's own descriptors."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tritonclient.grpc import model_config_pb2

from include.model_release.triton_config.fields import MESSAGES, FieldKind, with_numbers
from tests.support.triton_config.strategy import is_map

_SCALARS = {
    FieldDescriptor.CPPTYPE_STRING: ("text", ""),
    FieldDescriptor.CPPTYPE_BOOL: ("bool", False),
    FieldDescriptor.CPPTYPE_FLOAT: ("float", 0.0),
    FieldDescriptor.CPPTYPE_DOUBLE: ("double", 0.0),
}


def _short(descriptor: Descriptor) -> str:
    return str(descriptor.full_name).removeprefix("inference.")


def _kind(field: FieldDescriptor) -> FieldKind:
    form: Any = "map" if is_map(field) else "list" if field.is_repeated else "one"
    value = field.message_type.fields_by_name["value"] if form == "map" else field
    in_oneof = field.containing_oneof is not None
    if value.message_type is not None:
        return FieldKind(form, "", _short(value.message_type), None, in_oneof)
    if value.enum_type is not None:
        return FieldKind(form, "enum", "", value.enum_type.values[0].name, in_oneof)
    scalar, zero = _SCALARS.get(value.cpp_type, ("int", 0))
    return FieldKind(form, scalar, "", zero, in_oneof)


def _reachable() -> dict[str, dict[str, FieldKind]]:
    found: dict[str, dict[str, FieldKind]] = {}
    waiting = [model_config_pb2.ModelConfig.DESCRIPTOR]
    while waiting:
        message = waiting.pop()
        found[_short(message)] = {field.name: _kind(field) for field in message.fields}
        for field in message.fields:
            below = field.message_type.fields_by_name["value"] if is_map(field) else field
            if below.message_type is not None and _short(below.message_type) not in found:
                waiting.append(below.message_type)
    return found


def test_the_table_is_the_protocol() -> None:
    """Every message that ModelConfig can hold, with all its fields and their kinds, and nothing else."""
    assert {name: dict(fields) for name, fields in MESSAGES.items()} == _reachable()


def test_a_users_own_keys_are_no_fields() -> None:
    """A tag or parameter that is called like a number's field keeps its text."""
    config = {"metric_tags": {"dims": "3"}, "parameters": {"versions": {"string_value": "1"}}}
    assert with_numbers(config) == config
    assert with_numbers({"input": [{"dims": ["3", "-1"]}], "not_known": {"dims": ["3"]}}) == {
        "input": [{"dims": [3, -1]}],
        "not_known": {"dims": ["3"]},
    }
