"""Configurations of a model to lay serving options over, and the means to lay them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slipway_core.spec.release_file import ReleaseSpec, apply_overrides, parse_release_spec
from slipway_core.spec.serving.serving import Serving
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import build_model_config
from slipway_core.triton_config.pbtxt import from_pbtxt

SPEC = parse_release_spec("model: ranker\nsource: {}\n", "ranker.yaml")
SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 4)),),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
)
BASE = """
# What training wrote.
platform: "onnxruntime_onnx"
max_batch_size: 16
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 label_filename: "labels.txt" }
dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 200 preserve_ordering: true }
optimization { graph { level: 1 } }
parameters { key: "threads" value { string_value: "2" } }
metric_tags { key: "team" value: "search" }
version_policy { specific { versions: 1 } }
"""


def spec_with(**serving: Any) -> ReleaseSpec:
    return apply_overrides(SPEC, {"serving": serving}, "the test")


def built(
    signature: ModelSignature, version: int, base: Mapping[str, Any] | None = None, **serving: Any
) -> dict[str, Any]:
    """The configuration that the options make, sequences included, which no release file may ask for."""
    options = Serving.model_validate_json(json.dumps(serving))
    return build_model_config("ranker", options, signature, version, base=base)


def over_base(base: str = BASE, signature: ModelSignature = SIGNATURE, **serving: Any) -> dict[str, Any]:
    return built(signature, 3, base=from_pbtxt(base), **serving)


RICH = """
backend: "onnxruntime" platform: "onnxruntime_onnx" max_batch_size: 16
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
instance_group { kind: KIND_GPU count: 3 gpus: [0, 1] rate_limiter { priority: 2 } }
version_policy { all { } }
dynamic_batching {
  preferred_batch_size: 4 max_queue_delay_microseconds: 200 preserve_ordering: true
  priority_levels: 1 default_priority_level: 1
  default_queue_policy {
    timeout_action: REJECT default_timeout_microseconds: 9 allow_timeout_override: true max_queue_size: 5
  }
  priority_queue_policy { key: 1 value { max_queue_size: 7 } }
}
optimization {
  priority: PRIORITY_MAX graph { level: 1 } input_pinned_memory { } output_pinned_memory { }
  cuda { graphs: true busy_wait_events: true output_copy_stream: true graph_spec { batch_size: 2 } }
  gather_kernel_buffer_threshold: 3 eager_batching: true
  execution_accelerators {
    gpu_execution_accelerator { name: "tensorrt" } cpu_execution_accelerator { name: "openvino" }
  }
}
model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
response_cache { enable: true }
parameters { key: "threads" value { string_value: "2" } }
metric_tags { key: "team" value: "search" }
"""
SEQUENCES = (
    RICH[: RICH.index("dynamic_batching")]
    + """
sequence_batching {
  max_sequence_idle_microseconds: 5 iterative_sequence: true
  oldest { max_candidate_sequences: 4 preferred_batch_size: 2 max_queue_delay_microseconds: 3 preserve_ordering: true }
  control_input { name: "start" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }
  state { input_name: "h_in" output_name: "h_out" data_type: TYPE_FP32 dims: 8 }
}
model_transaction_policy { decoupled: true }
"""
)
STATEFUL = ModelSignature(
    inputs=(
        *SIGNATURE.inputs,
        TensorSpec(name="start", datatype="FP32", shape=(-1, 1)),
        TensorSpec(name="h_in", datatype="FP32", shape=(-1, 8)),
    ),
    outputs=(*SIGNATURE.outputs, TensorSpec(name="h_out", datatype="FP32", shape=(-1, 8))),
)


def fed_by_triton(base: str) -> ModelSignature:
    """A model that has just those tensors besides x and y which Triton feeds by this base."""
    names = {tensor.name for tensor in (*STATEFUL.inputs, *STATEFUL.outputs) if f'"{tensor.name}"' in base}
    return ModelSignature(
        inputs=tuple(tensor for tensor in STATEFUL.inputs if tensor.name in names),
        outputs=tuple(tensor for tensor in STATEFUL.outputs if tensor.name in names),
    )


def nested(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)
