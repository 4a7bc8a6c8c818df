"""Serving options laid over a base: what the release file says counts, what it does not mention stays."""

from __future__ import annotations

from typing import Any

import pytest

from include.model_release.errors import ModelInvalidError, SpecError
from include.model_release.model_config import build_config, config_sha256
from include.model_release.signature import ModelSignature, TensorSpec
from include.model_release.spec import ReleaseSpec, apply_overrides, parse_release_spec
from include.triton_config import from_pbtxt, to_pbtxt

_SPEC = parse_release_spec("model: ranker\nsource: {}\n", "ranker.yaml")
_SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 4)),),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
)
_BASE = """
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


def _spec(**serving: Any) -> ReleaseSpec:
    return apply_overrides(_SPEC, {"serving": serving}, "the test")


def _over_base(base: str = _BASE, signature: ModelSignature = _SIGNATURE, **serving: Any) -> dict[str, Any]:
    return build_config(_spec(**serving), signature, 3, base=from_pbtxt(base))


def test_a_base_stays_as_it_is() -> None:
    """Without a word in the release file only what a release must know is filled in: name, version, instances."""
    expected = {
        **from_pbtxt(_BASE),
        "name": "ranker",
        "backend": "onnxruntime",
        "default_model_filename": "model.onnx",
        "instance_group": [{"kind": "KIND_CPU", "count": 1}],
        "version_policy": {"specific": {"versions": [3]}},
    }
    assert _over_base() == expected


def test_an_engine_runs_on_a_gpu_unless_told_otherwise() -> None:
    """The default of one CPU instance is not for engines; written down, it is a contradiction."""
    config = build_config(_spec(platform="tensorrt_plan"), _SIGNATURE, 3)
    assert config["instance_group"] == [{"kind": "KIND_GPU", "count": 1}]
    with pytest.raises(ModelInvalidError, match=r"`instance_group\[0\]\.kind` does not go with an engine"):
        build_config(_spec(platform="tensorrt_plan", instances=[{"kind": "cpu"}]), _SIGNATURE, 3)


def test_contradictions_with_a_base_name_the_field() -> None:
    """Another model's name, another platform, a second way to schedule, a tensor that the model lacks."""
    cases: list[tuple[str, dict[str, Any], str]] = [
        ('name: "other"', {}, r"`name` is that of another model"),
        (_BASE, {"platform": "tensorrt_plan"}, r"`platform` contradicts the release file"),
        (_BASE, {"sequence_batching": {}}, r"`dynamic_batching` excludes `sequence_batching`"),
        (_BASE.replace('"x"', '"z"'), {}, r"`input\[0\]\.name` is no input of the model"),
        (_BASE, {"max_batch_size": 4}, r"`dynamic_batching\.preferred_batch_size` goes above"),
        (
            _BASE,
            {"response_cache": True, "sequence_batching": {}, "dynamic_batching": None},
            r"response_cache",
        ),
    ]
    for base, serving, words in cases:
        with pytest.raises(ModelInvalidError, match=words):
            _over_base(base, **serving)


def test_options_are_laid_over_a_base() -> None:
    """A written option replaces its own field and leaves its neighbours; false and 0 count as written."""
    config = _over_base(
        max_batch_size=32,
        dynamic_batching={"max_queue_delay_us": 0, "preserve_ordering": False},
        optimization={"cuda": {"graphs": False}, "input_pinned_memory": False},
        parameters={"level": "high"},
        metric_tags={"team": "ranking"},
        version_policy={"mode": "latest", "count": 2},
    )
    assert config["max_batch_size"] == 32
    assert config["dynamic_batching"] == {
        "preferred_batch_size": [4, 8],
        "max_queue_delay_microseconds": 0,
        "preserve_ordering": False,
    }
    assert config["optimization"] == {
        "graph": {"level": 1},
        "cuda": {"graphs": False},
        "input_pinned_memory": {"enable": False},
    }
    assert config["parameters"] == {"threads": {"string_value": "2"}, "level": {"string_value": "high"}}
    assert config["metric_tags"] == {"team": "ranking"}
    assert config["version_policy"] == {"latest": {"num_versions": 2}}
    assert config["output"][0]["label_filename"] == "labels.txt"


def test_null_removes_from_a_base() -> None:
    """`dynamic_batching: null` takes batching away."""
    assert "dynamic_batching" not in _over_base(dynamic_batching=None)


def test_the_bases_own_version_policy() -> None:
    """`all` and `latest` stay; a `specific` one cannot know the release's number."""
    everything = _BASE.replace("specific { versions: 1 }", "all { }")
    assert _over_base(everything)["version_policy"] == {"all": {}}


def test_every_option_can_be_written() -> None:
    """The whole of the options, against Triton's fields, checked by hand; and Triton's own message takes it."""
    config = build_config(
        _spec(
            platform="tensorrt_plan",
            max_batch_size=16,
            dynamic_batching={
                "max_queue_delay_us": 500,
                "preferred_batch_sizes": [4, 16],
                "preserve_ordering": True,
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
        _SIGNATURE,
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
            "preserve_ordering": True,
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
    spec = _spec(
        sequence_batching={
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
    )
    config = build_config(spec, signature, 1)
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
        build_config(spec, _SIGNATURE, 1)


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"sequence_batching": {}, "dynamic_batching": {}}, "exclude each other"),
        ({"response_cache": True, "decoupled": True}, "exclude each other"),
        ({"instances": [{"kind": "cpu", "gpus": [0]}]}, "needs `kind: gpu`"),
        ({"instances": [{"kind": "gpu", "gpus": [0, 0]}]}, "twice"),
        ({"max_batch_size": 4, "dynamic_batching": {"preferred_batch_sizes": [8]}}, "go above"),
        ({"max_batch_size": 4, "warmup": [{"name": "a", "batch_size": 8}]}, "above `max_batch_size: 4`"),
        ({"warmup": [{"name": "a"}, {"name": "a"}]}, "same name"),
        ({"sequence_batching": {"strategy": "oldest"}}, "needs `max_candidate_sequences`"),
        ({"sequence_batching": {"preferred_batch_sizes": [2]}}, "does not go with `strategy: direct`"),
        ({"dynamic_batching": {"priority_levels": 2}}, "go together"),
        ({"hardware": {"compute_capability": "ada", "tensorrt": "10.13.2"}}, "compute_capability"),
    ],
)
def test_the_release_file_contradicts_itself(serving: dict[str, Any], words: str) -> None:
    """What can be seen in the release file alone is told when it is read."""
    with pytest.raises(SpecError) as refused:
        _spec(**serving)
    assert words in str(refused.value)
