"""Random valid ModelConfig messages, made from the protocol's own descriptors, and the same with zeros written out."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from slipway_core.triton_config.fields import ROOT, fields_of

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_TEXT = st.text(max_size=6)
_KEYS = {FieldDescriptor.CPPTYPE_STRING: _TEXT, FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1)}


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind in _RANGES:
        return st.integers(*_RANGES[kind])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind == FieldDescriptor.CPPTYPE_FLOAT:
        return st.floats(width=32, allow_nan=False, allow_infinity=False)
    if kind == FieldDescriptor.CPPTYPE_DOUBLE:
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([value.name for value in field.enum_type.values])
    return _TEXT


def _value(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    return message_dicts(field.message_type) if field.message_type is not None else _scalar(field)


@st.composite
def message_dicts(draw: st.DrawFn, descriptor: Descriptor) -> dict[str, Any]:
    """A message in the JSON form: some of its fields, at most one of each oneof."""
    result: dict[str, Any] = {}
    taken: set[str] = set()
    names = (
        draw(st.lists(st.sampled_from(sorted(descriptor.fields_by_name)), unique=True, max_size=4))
        if (descriptor.fields)
        else []
    )
    for name in names:
        field = descriptor.fields_by_name[name]
        choice = field.containing_oneof.name if field.containing_oneof else ""
        if choice in taken:
            continue
        if choice:
            taken.add(choice)
        if is_map(field):
            entry = field.message_type
            keys = _KEYS[entry.fields_by_name["key"].cpp_type]
            below = _value(entry.fields_by_name["value"])
            result[name] = {str(k): v for k, v in draw(st.dictionaries(keys, below, max_size=2)).items()}
        elif field.is_repeated:
            result[name] = draw(st.lists(_value(field), max_size=2))
        else:
            result[name] = draw(_value(field))
    return result


def model_configs() -> st.SearchStrategy[Any]:
    """Random messages of the whole ModelConfig."""
    descriptor = model_config_pb2.ModelConfig.DESCRIPTOR
    return message_dicts(descriptor).map(
        lambda value: json_format.ParseDict(value, model_config_pb2.ModelConfig())
    )


def as_dict(message: Any, *, defaults: bool = False) -> dict[str, Any]:
    """A message in protobuf's JSON form; with `defaults` every scalar and list that is not set, too."""
    result: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=defaults
    )
    return result


def reachable() -> set[str]:
    """Return the names of all messages that a ModelConfig can hold."""
    found: set[str] = set()
    waiting = [ROOT]
    while waiting:
        message = waiting.pop()
        found.add(message)
        waiting += {kind.message for kind in fields_of(message).values() if kind.message} - found
    return found
