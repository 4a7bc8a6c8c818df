"""config.pbtxt by its grammar: sound configurations with fields set, cleared, doubled and pushed to their edges.

What is changed is a message of Triton's own ModelConfig, by its descriptors, so that the text is well-formed and gets
past the parser, to the checks and all that is built on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from google.protobuf import json_format, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2

from benchmarks.fuzz import interesting

_X = {"name": "x", "data_type": "TYPE_FP32", "dims": [4]}
_Y = {"name": "y", "data_type": "TYPE_FP32", "dims": [2]}
_BASE = {"name": "m", "platform": "onnxruntime_onnx", "max_batch_size": 8, "input": [_X], "output": [_Y]}
CONFIGS: tuple[Mapping[str, Any], ...] = (
    {
        **_BASE,
        "platform": "tensorrt_plan",
        "instance_group": [{"kind": "KIND_GPU", "profile": ["0"]}],
    },
    {
        **_BASE,
        "dynamic_batching": {
            "preferred_batch_size": [4, 8],
            "max_queue_delay_microseconds": 100,
            "priority_levels": 2,
            "default_priority_level": 1,
            "default_queue_policy": {"timeout_action": "DELAY", "max_queue_size": 3},
            "priority_queue_policy": {"1": {"default_timeout_microseconds": 9}},
        },
        "instance_group": [
            {
                "kind": "KIND_GPU",
                "count": 2,
                "gpus": [0, 1],
                "rate_limiter": {"resources": [{"name": "r", "count": 1}], "priority": 2},
            }
        ],
        "optimization": {
            "cuda": {"graphs": True, "graph_spec": [{"batch_size": 1, "input": {"x": {"dim": [4]}}}]},
            "execution_accelerators": {
                "gpu_execution_accelerator": [{"name": "tensorrt", "parameters": {"a": "b"}}]
            },
            "input_pinned_memory": {"enable": True},
        },
        "version_policy": {"specific": {"versions": [3]}},
        "model_warmup": [
            {
                "name": "w",
                "batch_size": 1,
                "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "zero_data": True}},
            }
        ],
        "parameters": {"part_model_name": {"string_value": "part"}},
        "response_cache": {"enable": True},
        "cc_model_filenames": {"8.9": "model.onnx"},
    },
    {
        "name": "m",
        "backend": "python",
        "max_batch_size": 4,
        "input": [_X],
        "output": [{**_Y, "label_filename": "labels.txt", "reshape": {"shape": [2]}}],
        "sequence_batching": {
            "oldest": {"max_candidate_sequences": 4, "preferred_batch_size": [2]},
            "control_input": [
                {"name": "START", "control": [{"kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1]}]}
            ],
            "state": [
                {
                    "input_name": "in",
                    "output_name": "out",
                    "data_type": "TYPE_FP32",
                    "dims": [-1],
                    "initial_state": [
                        {"name": "i", "data_type": "TYPE_FP32", "dims": [1], "data_file": "zeros"}
                    ],
                }
            ],
        },
        "model_transaction_policy": {"decoupled": True},
        "version_policy": {"latest": {"num_versions": 1}},
    },
    {
        "name": "m",
        "platform": "ensemble",
        "max_batch_size": 8,
        "input": [_X],
        "output": [_Y],
        "ensemble_scheduling": {
            "step": [
                {"model_name": "part", "model_version": -1, "input_map": {"a": "x"}, "output_map": {"b": "y"}}
            ]
        },
    },
)
# What the others call.
PART = {**_BASE, "name": "part"}
_BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_NAMES = (
    "x",
    "y",
    "m",
    "part",
    "in",
    "START",
    "TYPE_FP32",
    "model_name",
    "0",
    "8.9",
    "labels.txt",
    "../x",
    "",
)
_NUMBER = re.compile(r"(?<=: )-?[0-9]+")
_MOST_CHANGES = 5


def written(config: Mapping[str, Any]) -> str:
    """Return the text of a configuration."""
    return _text(json_format.ParseDict(dict(config), model_config_pb2.ModelConfig()))


def generated(rng: Random) -> str:
    """Return the text of one of the configurations with a few fields changed; now and then a number too large."""
    config = json_format.ParseDict(dict(rng.choice(CONFIGS)), model_config_pb2.ModelConfig())
    for _ in range(rng.randint(1, _MOST_CHANGES)):
        _change(rng, rng.choice(list(_messages(config))))
    text = _text(config)
    numbers = list(_NUMBER.finditer(text))
    if numbers and rng.random() < 0.1:
        place = rng.choice(numbers)
        number = rng.choice((2**31, 2**63, 2**64, -1, 10**30, "9" * 5000, "1e3", "nan", "inf", "010"))
        text = text[: place.start()] + str(number) + text[place.end() :]
    return text


def _text(config: Message) -> str:
    text: str = text_format.MessageToString(config)
    return text


def _messages(message: Message) -> Iterator[Message]:
    """The message and all below it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if _is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for below in value.values():
                    yield from _messages(below)
        elif field.is_repeated:
            for below in value:
                yield from _messages(below)
        else:
            yield from _messages(value)


def _change(rng: Random, message: Message) -> None:
    if not message.DESCRIPTOR.fields:
        return
    field = rng.choice(message.DESCRIPTOR.fields)
    if rng.random() < 0.25:
        message.ClearField(field.name)
    elif _is_map(field):
        _add_entry(rng, message, field)
    elif field.is_repeated:
        _add_item(rng, message, field)
    elif field.message_type is not None:
        below = getattr(message, field.name)
        below.SetInParent()
        _change(rng, below)
    else:
        setattr(message, field.name, _scalar(rng, field))


def _add_entry(rng: Random, message: Message, field: FieldDescriptor) -> None:
    entry, values = field.message_type.fields_by_name, getattr(message, field.name)
    key = _scalar(rng, entry["key"])
    if entry["value"].message_type is not None:
        _change(rng, values[key])
    else:
        values[key] = _scalar(rng, entry["value"])


def _add_item(rng: Random, message: Message, field: FieldDescriptor) -> None:
    items = getattr(message, field.name)
    if field.message_type is None:
        items.extend([_scalar(rng, field)] * rng.choice((1, 2, 50)))
    elif len(items) and rng.random() < 0.5:
        items.add().CopyFrom(rng.choice(items))
    else:
        _change(rng, items.add())


def _scalar(rng: Random, field: FieldDescriptor) -> Any:
    kind = field.cpp_type
    if kind in _BITS:
        low, high = _BITS[kind]
        return rng.choice((0, 1, 2, 3, 8, low, high, max(low, -1)))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice((0.0, 0.5, -1.0, 1e300, 1e-300, float("nan"), float("inf"), -float("inf")))
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    text = rng.choice(_NAMES) if rng.random() < 0.7 else rng.choice(interesting.TEXTS)
    return text.encode("utf-8", "replace").decode()


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
