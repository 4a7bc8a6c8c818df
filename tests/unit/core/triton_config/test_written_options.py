"""Every serving option as Triton's own field, checked by hand."""

from __future__ import annotations

import pytest

from slipway_core.errors import ModelInvalidError
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt
from tests.support.triton_config.serving_options import SIGNATURE, built, spec_with


def test_every_option_can_be_written() -> None:
    """The whole of the options, against Triton's fields, checked by hand; and Triton's own message takes it."""
    config = build_config(
        spec_with(
            platform="tensorrt_plan",
            max_batch_size=16,
            dynamic_batching={
                "max_queue_delay_us": 500,
                "preferred_batch_sizes": [4, 16],
                "preserve_ordering": False,
                "priority_levels": 2,
                "default_priority_level": 2,
                "queue_policy": {"timeout_action": "delay", "default_timeout_us": 9, "max_queue_size": 7},
                "priority_queue_policies": {"1": {"allow_timeout_override": True}},
            },
            instances=[
                {
                    "kind": "gpu",
                    "count": 2,
                    "gpus": [0, 1],
                    "profiles": [0],
                    "host_policy": "numa0",
                    "rate_limiter": {"resources": [{"name": "R", "count": 4, "shared": True}], "priority": 2},
                },
                {"kind": "gpu", "passive": True},
            ],
            response_cache=True,
            optimization={
                "priority": "max",
                "graph_level": 1,
                "cuda": {"graph_sizes": [{"batch_size": 8, "inputs": {"x": [4]}}], "busy_wait_events": True},
                "gpu_accelerators": [{"name": "tensorrt", "parameters": {"precision_mode": "FP16"}}],
                "cpu_accelerators": [{"name": "openvino"}],
                "output_pinned_memory": True,
                "gather_kernel_buffer_threshold": 3,
                "eager_batching": True,
            },
            warmup=[{"name": "first", "data": "zero", "batch_size": 4, "count": 3}],
        ),
        SIGNATURE,
        3,
    )
    assert config == {
        "name": "ranker",
        "platform": "tensorrt_plan",
        "backend": "tensorrt",
        "default_model_filename": "model.plan",
        "max_batch_size": 16,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [2]}],
        "version_policy": {"specific": {"versions": [3]}},
        "dynamic_batching": {
            "max_queue_delay_microseconds": 500,
            "preferred_batch_size": [4, 16],
            "preserve_ordering": False,
            "priority_levels": 2,
            "default_priority_level": 2,
            "default_queue_policy": {
                "timeout_action": "DELAY",
                "default_timeout_microseconds": 9,
                "max_queue_size": 7,
            },
            "priority_queue_policy": {"1": {"allow_timeout_override": True}},
        },
        "instance_group": [
            {
                "kind": "KIND_GPU",
                "count": 2,
                "gpus": [0, 1],
                "profile": ["0"],
                "host_policy": "numa0",
                "rate_limiter": {"resources": [{"name": "R", "count": 4, "global": True}], "priority": 2},
            },
            {"kind": "KIND_GPU", "count": 1, "passive": True},
        ],
        "response_cache": {"enable": True},
        "optimization": {
            "priority": "PRIORITY_MAX",
            "graph": {"level": 1},
            "cuda": {
                "graphs": True,
                "busy_wait_events": True,
                "graph_spec": [{"batch_size": 8, "input": {"x": {"dim": [4]}}}],
            },
            "execution_accelerators": {
                "gpu_execution_accelerator": [{"name": "tensorrt", "parameters": {"precision_mode": "FP16"}}],
                "cpu_execution_accelerator": [{"name": "openvino"}],
            },
            "output_pinned_memory": {"enable": True},
            "gather_kernel_buffer_threshold": 3,
            "eager_batching": True,
        },
        "model_warmup": [
            {
                "name": "first",
                "batch_size": 4,
                "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "zero_data": True}},
                "count": 3,
            }
        ],
    }
    assert config_sha256(from_pbtxt(to_pbtxt(config))) == config_sha256(config)


def test_a_model_with_sequences() -> None:
    """Controls and states are fed by Triton, so clients do not see them among the inputs and outputs."""
    signature = ModelSignature(
        inputs=(
            TensorSpec(name="x", datatype="FP32", shape=(-1, 4)),
            TensorSpec(name="start", datatype="FP32", shape=(-1, 1)),
            TensorSpec(name="id", datatype="UINT64", shape=(-1, 1)),
            TensorSpec(name="h_in", datatype="FP32", shape=(-1, 8)),
        ),
        outputs=(
            TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),
            TensorSpec(name="h_out", datatype="FP32", shape=(-1, 8)),
        ),
    )
    sequences = {
        "sequence_batching": {
            "strategy": "oldest",
            "max_sequence_idle_us": 5_000_000,
            "max_candidate_sequences": 32,
            "preferred_batch_sizes": [8],
            "controls": [
                {"input": "start", "kind": "start", "datatype": "FP32"},
                {"input": "id", "kind": "correlation_id", "datatype": "UINT64"},
            ],
            "states": [{"input": "h_in", "output": "h_out", "datatype": "FP32", "dims": [8]}],
        }
    }
    config = built(signature, 1, **sequences)
    assert "dynamic_batching" not in config
    assert [tensor["name"] for tensor in config["input"]] == ["x"]
    assert [tensor["name"] for tensor in config["output"]] == ["y"]
    assert config["sequence_batching"] == {
        "max_sequence_idle_microseconds": 5_000_000,
        "oldest": {"max_candidate_sequences": 32, "preferred_batch_size": [8]},
        "control_input": [
            {"name": "start", "control": [{"kind": "CONTROL_SEQUENCE_START", "fp32_false_true": [0.0, 1.0]}]},
            {"name": "id", "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}]},
        ],
        "state": [
            {
                "input_name": "h_in",
                "output_name": "h_out",
                "data_type": "TYPE_FP32",
                "dims": [8],
                "initial_state": [
                    {"name": "zeros of h_in", "data_type": "TYPE_FP32", "dims": [8], "zero_data": True}
                ],
            }
        ],
    }
    to_pbtxt(config)
    with pytest.raises(ModelInvalidError, match=r"sequence_batching: start.*no input of the model"):
        built(SIGNATURE, 1, **sequences)
