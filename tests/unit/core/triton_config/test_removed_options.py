"""Options that are null or empty: what they take from a base, and what is filled in again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_core.spec.serving.batching import DynamicBatching, QueuePolicy, SequenceBatching
from slipway_core.spec.serving.instances import CudaOptions, Optimization
from slipway_core.spec.serving.serving import Serving
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt
from tests.support.triton_config.serving_options import (
    RICH,
    SEQUENCES,
    SIGNATURE,
    fed_by_triton,
    nested,
    over_base,
    spec_with,
)

# Option of the release file, and the field of ModelConfig that `null` takes out of the base.
_REMOVED = {
    "dynamic_batching": "dynamic_batching",
    "dynamic_batching.max_queue_delay_us": "dynamic_batching.max_queue_delay_microseconds",
    "dynamic_batching.preferred_batch_sizes": "dynamic_batching.preferred_batch_size",
    "dynamic_batching.preserve_ordering": "dynamic_batching.preserve_ordering",
    "dynamic_batching.queue_policy": "dynamic_batching.default_queue_policy",
    "dynamic_batching.queue_policy.timeout_action": "dynamic_batching.default_queue_policy.timeout_action",
    "dynamic_batching.queue_policy.default_timeout_us":
        "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "dynamic_batching.queue_policy.allow_timeout_override":
        "dynamic_batching.default_queue_policy.allow_timeout_override",
    "dynamic_batching.queue_policy.max_queue_size": "dynamic_batching.default_queue_policy.max_queue_size",
    "dynamic_batching.priority_queue_policies": "dynamic_batching.priority_queue_policy",
    "dynamic_batching.priority_queue_policies.1": "dynamic_batching.priority_queue_policy.1",
    "warmup": "model_warmup",
    "response_cache": "response_cache",
    "optimization": "optimization",
    "optimization.priority": "optimization.priority",
    "optimization.graph_level": "optimization.graph",
    "optimization.cuda": "optimization.cuda",
    "optimization.cuda.graphs": "optimization.cuda.graphs",
    "optimization.cuda.graph_sizes": "optimization.cuda.graph_spec",
    "optimization.cuda.busy_wait_events": "optimization.cuda.busy_wait_events",
    "optimization.cuda.output_copy_stream": "optimization.cuda.output_copy_stream",
    "optimization.gpu_accelerators": "optimization.execution_accelerators.gpu_execution_accelerator",
    "optimization.cpu_accelerators": "optimization.execution_accelerators.cpu_execution_accelerator",
    "optimization.input_pinned_memory": "optimization.input_pinned_memory",
    "optimization.output_pinned_memory": "optimization.output_pinned_memory",
    "optimization.gather_kernel_buffer_threshold": "optimization.gather_kernel_buffer_threshold",
    "optimization.eager_batching": "optimization.eager_batching",
    "parameters": "parameters",
    "parameters.threads": "parameters.threads",
    "metric_tags": "metric_tags",
    "metric_tags.team": "metric_tags.team",
    "decoupled": "model_transaction_policy",
    "sequence_batching": "sequence_batching",
    "sequence_batching.max_sequence_idle_us": "sequence_batching.max_sequence_idle_microseconds",
    "sequence_batching.iterative": "sequence_batching.iterative_sequence",
    "sequence_batching.max_candidate_sequences": "sequence_batching.oldest.max_candidate_sequences",
    "sequence_batching.preferred_batch_sizes": "sequence_batching.oldest.preferred_batch_size",
    "sequence_batching.max_queue_delay_us": "sequence_batching.oldest.max_queue_delay_microseconds",
    "sequence_batching.preserve_ordering": "sequence_batching.oldest.preserve_ordering",
    "sequence_batching.controls": "sequence_batching.control_input",
    "sequence_batching.states": "sequence_batching.state",
}  # fmt: skip
# What a release must have is filled in again; levels go by two; a strategy that is not told stays the base's.
_FILLED = {"platform", "instances", "version_policy"}
_OTHERWISE = {
    "dynamic_batching.priority_levels", "dynamic_batching.default_priority_level",
    "sequence_batching.strategy", "sequence_batching.minimum_slot_utilization",
}  # fmt: skip


@pytest.mark.parametrize("option", _REMOVED)
def test_null_removes_from_a_base(option: str) -> None:
    """Whatever option it is: its field goes, and every other field of the base stays as it was."""
    base = SEQUENCES if option.startswith(("sequence_batching", "decoupled")) else RICH
    if option.endswith("timeout_action"):
        base = base.replace("REJECT", "DELAY").replace(
            "preserve_ordering: true", ""
        )  # which exclude each other
    whole = over_base(base, fed_by_triton(base))
    *above, last = _REMOVED[option].split(".")
    expected = copy.deepcopy(whole)
    place = expected
    for key in above:
        place = place[key]
    del place[last]
    assert over_base(base, fed_by_triton(to_pbtxt(expected)), **nested(option, None)) == expected


def test_every_option_can_be_removed() -> None:
    """The list above has every option that there is, down to single flags."""
    parts: dict[str, Any] = {
        "": Serving, "dynamic_batching.": DynamicBatching, "dynamic_batching.queue_policy.": QueuePolicy,
        "sequence_batching.": SequenceBatching, "optimization.": Optimization, "optimization.cuda.": CudaOptions,
    }  # fmt: skip
    options = {prefix + name for prefix, part in parts.items() for name in part.model_fields}
    entries = {"dynamic_batching.priority_queue_policies.1", "parameters.threads", "metric_tags.team"}
    unremovable = {"max_batch_size", "hardware", "load_timeout_s"}
    assert options | entries == _REMOVED.keys() | _FILLED | _OTHERWISE | unremovable


def test_what_a_release_must_have_is_filled_in_again() -> None:
    """`null` for platform, instances and version policy: as if the base had said nothing about them."""
    config = over_base(RICH, optimization=None, platform=None, instances=None, version_policy=None)
    assert (config["platform"], config["backend"]) == ("onnxruntime_onnx", "onnxruntime")
    assert config["instance_group"] == [{"kind": "KIND_CPU", "count": 1}]
    assert config["version_policy"] == {"specific": {"versions": [3]}}
    python = 'backend: "python" default_model_filename: "model.onnx" max_batch_size: 16'
    assert over_base(python, platform=None)["backend"] == "onnxruntime"
    assert over_base(python)["backend"] == "python"


def test_without_a_base_null_is_nothing() -> None:
    """Nothing is left of an option that is null, at whatever depth, and config.pbtxt can be written."""
    config = build_config(
        spec_with(
            dynamic_batching={"preferred_batch_sizes": None, "queue_policy": None},
            optimization={"cuda": {"graphs": None}, "priority": None, "gpu_accelerators": None},
            parameters={"threads": None, "level": "2"},
            metric_tags=None,
            warmup=None,
            response_cache=None,
        ),
        SIGNATURE,
        3,
    )
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 1000}
    assert config["parameters"] == {"level": {"string_value": "2"}}
    assert not {"metric_tags", "model_warmup", "response_cache"} & config.keys()
    assert config_sha256(from_pbtxt(to_pbtxt(config))) == config_sha256(config)


def test_an_empty_list_empties_the_field() -> None:
    """`[]` is a value that is written: the base's warm-ups, accelerators, sizes and graphs go."""
    config = over_base(
        RICH,
        warmup=[],
        dynamic_batching={"preferred_batch_sizes": []},
        optimization={"gpu_accelerators": [], "cuda": {"graph_sizes": []}},
    )
    assert "model_warmup" not in config
    assert config["dynamic_batching"]["preferred_batch_size"] == []
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 200
    accelerators = config["optimization"]["execution_accelerators"]
    assert accelerators == {
        "gpu_execution_accelerator": [],
        "cpu_execution_accelerator": [{"name": "openvino"}],
    }
    assert config["optimization"]["cuda"] == {
        "graphs": True, "busy_wait_events": True, "output_copy_stream": True, "graph_spec": [],
    }  # fmt: skip
