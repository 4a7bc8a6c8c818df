"""What Triton's own core refuses at load is refused before anything is published, with the field's name."""

from __future__ import annotations

from itertools import count

import pytest

from slipway_core.triton_config.checks.contradictions import contradictions
from slipway_core.triton_config.pbtxt import from_pbtxt

_GOOD = """
name: "ranker" platform: "onnxruntime_onnx" backend: "onnxruntime" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
_ENSEMBLE = """
name: "both" platform: "ensemble" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
_STEP = """
step { model_name: "a" input_map { key: "i" value: "x" } output_map { key: "o" value: "m" } }
step { model_name: "b" input_map { key: "i" value: "m" } output_map { key: "o" value: "y" } }
"""


def _fields(text: str) -> list[str]:
    return [one.field for one in contradictions(from_pbtxt(text))]


def _sequence(controls: str) -> str:
    return _GOOD + f"sequence_batching {{ direct {{ }} {controls} }}"


def _ensemble(old: str = "", new: str = "") -> str:
    steps = _STEP.replace(old, new, 1) if old else _STEP
    return f"{_ENSEMBLE} ensemble_scheduling {{ {steps} }}"


_START = 'control_input { name: "s" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }'
_ID = 'control_input { name: "c" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }'


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (_GOOD.replace("dims: 4", "dims: 0"), "input[0].dims"),
        (_GOOD.replace("dims: 4", "dims: -2"), "input[0].dims"),
        (_GOOD.replace("dims: 4", "dims: 4 reshape { shape: [2, 0] }"), "input[0].reshape.shape"),
        (_GOOD.replace("dims: 4", "dims: 4 reshape { shape: [3] }"), "input[0].reshape.shape"),
        (_GOOD.replace("dims: 4", "dims: 4 reshape { shape: [] }"), "input[0].reshape.shape"),
        (_GOOD.replace("dims: 4", "dims: [2, -1, 3] reshape { shape: [3, -1, 2] }"), "input[0].reshape.shape"),
        (_GOOD.replace("dims: 4", "dims: [1] reshape { }").replace("size: 8", "size: 0"), "input[0].reshape"),
        (_GOOD.replace("dims: 4", "dims: 4 format: FORMAT_NCHW"), "input[0].format"),
        (_GOOD.replace("dims: 4", "dims: 4 is_shape_tensor: true"), "input[0].is_shape_tensor"),
        (_GOOD.replace("dims: 2", "dims: 2 is_non_linear_format_io: true"), "output[0].is_non_linear_format_io"),
        (_GOOD.replace("size: 8", "size: -1"), "max_batch_size"),
        (_GOOD + "dynamic_batching { preferred_batch_size: -4 }", "dynamic_batching.preferred_batch_size"),
        (_GOOD + "dynamic_batching { preferred_batch_size: 0 }", "dynamic_batching.preferred_batch_size"),
        (_GOOD + 'instance_group { kind: KIND_CPU profile: "0" }', "instance_group[0].profile"),
        (_GOOD + "instance_group { kind: KIND_MODEL gpus: 0 }", "instance_group[0].gpus"),
        (
            _GOOD + "model_metrics { metric_control { histogram_options { buckets: 1 } } }",
            "model_metrics.metric_control[0].metric_identifier.family",
        ),
        (
            _GOOD + 'model_metrics { metric_control { metric_identifier { family: "f" } } }',
            "model_metrics.metric_control[0].histogram_options.buckets",
        ),
        (_sequence(_START + _START), "sequence_batching.control_input[1].name"),
        (_sequence(_START + _START.replace('"s"', '"t"')), "sequence_batching.control_input[1].control"),
        (_sequence(_START.replace("[0, 1]", "[0]")), "sequence_batching.control_input[0].control"),
        (_sequence(_START.replace("int32_false_true: [0, 1]", "")), "sequence_batching.control_input[0].control"),
        (
            _sequence(_START.replace("[0, 1]", "[0, 1] fp32_false_true: [0, 1]")),
            "sequence_batching.control_input[0].control",
        ),
        (_sequence(_ID.replace("UINT64", "FP32")), "sequence_batching.control_input[0].control"),
        (
            _GOOD + "sequence_batching { direct { minimum_slot_utilization: 1.5 } }",
            "sequence_batching.direct.minimum_slot_utilization",
        ),
        (
            _GOOD + 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 }',
            "batch_input[0].source_input",
        ),
        (
            _GOOD + 'batch_input { target_name: "n" data_type: TYPE_FP32 source_input: "q" }',
            "batch_input[0].source_input",
        ),
        (
            _GOOD + 'batch_input { target_name: "n" data_type: TYPE_INT64 source_input: "x" }',
            "batch_input[0].data_type",
        ),
        (_GOOD + 'batch_input { data_type: TYPE_FP32 source_input: "x" }', "batch_input[0].target_name"),
        (_GOOD + 'batch_output { target_name: "q" source_input: "x" }', "batch_output[0].target_name"),
        (_GOOD + 'batch_output { target_name: ["y", "y"] source_input: "x" }', "batch_output[0].target_name"),
        (_ENSEMBLE, "ensemble_scheduling"),
        (_ENSEMBLE + "ensemble_scheduling { }", "ensemble_scheduling.step"),
        (_ENSEMBLE.replace('"ensemble"', '"onnxruntime_onnx"') + f"ensemble_scheduling {{ {_STEP} }}", "platform"),
        (_ENSEMBLE + f"optimization {{ }} ensemble_scheduling {{ {_STEP} }}", "optimization"),
        (
            _ensemble('model_name: "b"', ''),
            "ensemble_scheduling.step[1].model_name",
        ),
        (
            _ENSEMBLE + 'ensemble_scheduling { step { model_name: "a" input_map { key: "i" value: "x" } } }',
            "ensemble_scheduling.step[0].output_map",
        ),
        (_ensemble('value: "x"', 'value: "q"'), "input[0].name"),
        (_ensemble('value: "y"', 'value: "z"'), "output[0].name"),
        (
            _ensemble('value: "y"', 'value: "m"'),
            "ensemble_scheduling.step[1].output_map",
        ),
        (
            _ensemble(
                "step",
                'step { model_name: "c" input_map { key: "i" value: "x" } output_map { key: "o" value: "u" } } step',
            ),
            "ensemble_scheduling.step: u",
        ),
    ],
    ids=count(),
)  # fmt: skip
def test_what_a_server_refuses_is_refused_with_its_field(text: str, field: str) -> None:
    """Each is a configuration that Triton's core does not load."""
    assert field in _fields(text)


@pytest.mark.parametrize(
    "text",
    [
        _GOOD,
        _GOOD + "dynamic_batching { preferred_batch_size: 8 priority_queue_policy { } }",
        _GOOD + 'dynamic_batching { priority_levels: 0 priority_queue_policy { key: 3 value { max_queue_size: 2 } } }',
        _GOOD.replace("dims: 4", "dims: [2, -1, 3] reshape { shape: [1, 2, -1, 3] }"),
        _GOOD.replace("dims: 4", "dims: [1] reshape { }"),
        _GOOD.replace("dims: 4", "dims: [3, 8, 8] format: FORMAT_NCHW"),
        _GOOD + 'batch_input { kind: BATCH_ITEM_SHAPE target_name: "n" data_type: TYPE_INT32 source_input: "x" }',
        _GOOD + 'batch_output { target_name: "y" source_input: "x" }',
        _GOOD + "optimization { cuda { graphs: true } }",
        _sequence(_START + _ID),
        _ensemble(),
    ],
    ids=count(),
)  # fmt: skip
def test_what_a_server_takes_is_taken(text: str) -> None:
    """An empty queue policy without levels, as a server's own dump has it, ragged batches and the like."""
    assert _fields(text) == []
