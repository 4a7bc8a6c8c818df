"""Serving options laid over a base: what the release file says counts, what it does not mention stays."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from include.model_release.errors import ModelInvalidError, SpecError
from include.model_release.spec.release_file import ReleaseSpec, apply_overrides, parse_release_spec
from include.model_release.spec.serving.batching import DynamicBatching, QueuePolicy, SequenceBatching
from include.model_release.spec.serving.instances import CudaOptions, Optimization
from include.model_release.spec.serving.serving import Serving
from include.model_release.tensors import ModelSignature, TensorSpec
from include.model_release.triton_config.build import build_config, build_model_config
from include.model_release.triton_config.canonical import config_sha256
from include.model_release.triton_config.pbtxt import from_pbtxt, to_pbtxt

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


def _built(
    signature: ModelSignature, version: int, base: Mapping[str, Any] | None = None, **serving: Any
) -> dict[str, Any]:
    """The configuration that the options make, sequences included, which no release file may ask for."""
    options = Serving.model_validate_json(json.dumps(serving))
    return build_model_config("ranker", options, signature, version, base=base)


def _over_base(base: str = _BASE, signature: ModelSignature = _SIGNATURE, **serving: Any) -> dict[str, Any]:
    return _built(signature, 3, base=from_pbtxt(base), **serving)


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


_RICH = """
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
_SEQUENCES = (
    _RICH[: _RICH.index("dynamic_batching")]
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
_STATEFUL = ModelSignature(
    inputs=(
        *_SIGNATURE.inputs,
        TensorSpec(name="start", datatype="FP32", shape=(-1, 1)),
        TensorSpec(name="h_in", datatype="FP32", shape=(-1, 8)),
    ),
    outputs=(*_SIGNATURE.outputs, TensorSpec(name="h_out", datatype="FP32", shape=(-1, 8))),
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


def _nested(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


@pytest.mark.parametrize("option", _REMOVED)
def test_null_removes_from_a_base(option: str) -> None:
    """Whatever option it is: its field goes, and every other field of the base stays as it was."""
    base = _SEQUENCES if option.startswith(("sequence_batching", "decoupled")) else _RICH
    if option.endswith("timeout_action"):
        base = base.replace("REJECT", "DELAY").replace(
            "preserve_ordering: true", ""
        )  # which exclude each other
    whole = _over_base(base, _fed(base))
    *above, last = _REMOVED[option].split(".")
    expected = copy.deepcopy(whole)
    place = expected
    for key in above:
        place = place[key]
    del place[last]
    assert _over_base(base, _fed(to_pbtxt(expected)), **_nested(option, None)) == expected


def _fed(base: str) -> ModelSignature:
    """A model that has just those tensors besides x and y which Triton feeds by this base."""
    names = {tensor.name for tensor in (*_STATEFUL.inputs, *_STATEFUL.outputs) if f'"{tensor.name}"' in base}
    return ModelSignature(
        inputs=tuple(tensor for tensor in _STATEFUL.inputs if tensor.name in names),
        outputs=tuple(tensor for tensor in _STATEFUL.outputs if tensor.name in names),
    )


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
    config = _over_base(_RICH, optimization=None, platform=None, instances=None, version_policy=None)
    assert (config["platform"], config["backend"]) == ("onnxruntime_onnx", "onnxruntime")
    assert config["instance_group"] == [{"kind": "KIND_CPU", "count": 1}]
    assert config["version_policy"] == {"specific": {"versions": [3]}}
    python = 'backend: "python" default_model_filename: "model.onnx" max_batch_size: 16'
    assert _over_base(python, platform=None)["backend"] == "onnxruntime"
    assert _over_base(python)["backend"] == "python"


def test_without_a_base_null_is_nothing() -> None:
    """Nothing is left of an option that is null, at whatever depth, and config.pbtxt can be written."""
    config = build_config(
        _spec(
            dynamic_batching={"preferred_batch_sizes": None, "queue_policy": None},
            optimization={"cuda": {"graphs": None}, "priority": None, "gpu_accelerators": None},
            parameters={"threads": None, "level": "2"},
            metric_tags=None,
            warmup=None,
            response_cache=None,
        ),
        _SIGNATURE,
        3,
    )
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 1000}
    assert config["parameters"] == {"level": {"string_value": "2"}}
    assert not {"metric_tags", "model_warmup", "response_cache"} & config.keys()
    assert config_sha256(from_pbtxt(to_pbtxt(config))) == config_sha256(config)


def test_an_empty_list_empties_the_field() -> None:
    """`[]` is a value that is written: the base's warm-ups, accelerators, sizes and graphs go."""
    config = _over_base(
        _RICH,
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


@pytest.mark.parametrize(
    ("option", "value", "field", "expected"),
    [
        ("dynamic_batching.max_queue_delay_us", 5, "dynamic_batching.max_queue_delay_microseconds", 5),
        (
            "dynamic_batching.queue_policy.max_queue_size",
            6,
            "dynamic_batching.default_queue_policy.max_queue_size",
            6,
        ),
        ("optimization.cuda.busy_wait_events", False, "optimization.cuda.busy_wait_events", False),
        ("optimization.cuda.graphs", False, "optimization.cuda.graphs", False),
        ("optimization.graph_level", 2, "optimization.graph.level", 2),
        ("optimization.input_pinned_memory", True, "optimization.input_pinned_memory.enable", True),
        (
            "optimization.cpu_accelerators",
            [{"name": "other"}],
            "optimization.execution_accelerators.cpu_execution_accelerator",
            [{"name": "other"}],
        ),
        ("response_cache", False, "response_cache.enable", False),
        ("parameters.level", "3", "parameters.level", {"string_value": "3"}),
        ("metric_tags.owner", "me", "metric_tags.owner", "me"),
        (
            "sequence_batching.max_queue_delay_us",
            9,
            "sequence_batching.oldest.max_queue_delay_microseconds",
            9,
        ),
        ("sequence_batching.max_sequence_idle_us", 8, "sequence_batching.max_sequence_idle_microseconds", 8),
        ("sequence_batching.iterative", False, "sequence_batching.iterative_sequence", False),
        ("decoupled", False, "model_transaction_policy.decoupled", False),
        ("version_policy.mode", "latest", "version_policy", {"latest": {"num_versions": 1}}),
        ("instances", [{"kind": "gpu"}], "instance_group", [{"kind": "KIND_GPU", "count": 1}]),
    ],
)
def test_one_option_changes_one_field(option: str, value: Any, field: str, expected: Any) -> None:
    """What is laid over a base leaves all of its neighbours, at whatever depth, as they were."""
    base = _SEQUENCES if option.startswith(("sequence_batching", "decoupled")) else _RICH
    wanted = _over_base(base, _fed(base))
    *above, last = field.split(".")
    place = wanted
    for key in above:
        place = place.setdefault(key, {})
    place[last] = expected
    assert _over_base(base, _fed(base), **_nested(option, value)) == wanted


def test_cuda_graphs_are_the_bases_to_say() -> None:
    """`cuda` alone turns them on; over a base that has `cuda` only what is written changes."""
    wanted = {"cuda": {"output_copy_stream": True}}
    gpu = _BASE + "instance_group { kind: KIND_GPU }"
    assert _over_base(gpu, optimization=wanted)["optimization"]["cuda"] == {
        "graphs": True,
        "output_copy_stream": True,
    }
    told = gpu.replace("optimization {", "optimization { cuda { busy_wait_events: true }")
    cuda = _over_base(told, optimization=wanted)["optimization"]["cuda"]
    assert cuda == {"busy_wait_events": True, "output_copy_stream": True}


def test_the_strategy_of_sequences_is_the_bases() -> None:
    """Without a word it stays, and so do its options; another one replaces it; its options need it."""
    signature = _fed(_SEQUENCES)
    direct = _over_base(
        _SEQUENCES, signature, sequence_batching={"strategy": "direct", "max_queue_delay_us": 7}
    )
    assert direct["sequence_batching"]["direct"] == {"max_queue_delay_microseconds": 7}
    assert "oldest" not in direct["sequence_batching"]
    assert direct["sequence_batching"]["state"], "which is no part of the strategy"
    with pytest.raises(
        ModelInvalidError, match=r"sequence_batching\.minimum_slot_utilization` does not go with"
    ):
        _over_base(_SEQUENCES, signature, sequence_batching={"minimum_slot_utilization": 0.5})
    with pytest.raises(
        ModelInvalidError, match=r"sequence_batching\.preferred_batch_sizes` does not go with"
    ):
        _built(_SIGNATURE, 3, sequence_batching={"preferred_batch_sizes": [2]})


def test_sizes_are_held_against_the_bases_largest_batch() -> None:
    """Where the release file says no `max_batch_size`, its sizes may go as high as the base's does, and no higher."""
    wide = _BASE.replace("max_batch_size: 16", "max_batch_size: 128")
    config = _over_base(wide, dynamic_batching={"preferred_batch_sizes": [100]})
    assert config["dynamic_batching"]["preferred_batch_size"] == [100]
    with pytest.raises(ModelInvalidError, match=r"preferred_batch_size` goes above"):
        _over_base(dynamic_batching={"preferred_batch_sizes": [17]})


def test_what_was_made_says_which_platform_it_is() -> None:
    """Without a word on the platform the file's name decides, and with it file name and kind of instance."""
    engine = build_config(_SPEC, _SIGNATURE, 3, files=["model.plan"])
    assert (engine["platform"], engine["backend"]) == ("tensorrt_plan", "tensorrt")
    assert engine["default_model_filename"] == "model.plan"
    assert engine["instance_group"] == [{"kind": "KIND_GPU", "count": 1}]
    onnx = build_config(_SPEC, _SIGNATURE, 3, files=["model.onnx"])
    assert (onnx["platform"], onnx["default_model_filename"]) == ("onnxruntime_onnx", "model.onnx")
    over = build_config(_SPEC, _SIGNATURE, 3, base={"max_batch_size": 4}, files=["model.plan"])
    assert over["platform"] == "tensorrt_plan"


@pytest.mark.parametrize(
    ("base", "serving", "words"),
    [
        (None, {"platform": "onnxruntime_onnx"}, r"`platform` wants a file `model\.onnx`"),
        (
            'platform: "onnxruntime_onnx"',
            {},
            r"`platform` wants a file `model\.onnx`.*serving\.platform: tensorrt",
        ),
        ('backend: "python"', {}, r"`backend` wants a file `model\.py`"),
        ('default_model_filename: "net.plan"', {}, r"`default_model_filename` wants a file `net\.plan`"),
        ("", {"instances": [{"kind": "cpu"}]}, r"`instance_group\[0\]\.kind` does not go with an engine"),
    ],
)
def test_another_platform_than_was_made_is_refused(
    base: str | None, serving: dict[str, Any], words: str
) -> None:
    """Said by the release file or by the base: the field is named, and what the conversion made."""
    told = None if base is None else from_pbtxt(f"max_batch_size: 4 {base}")
    with pytest.raises(ModelInvalidError, match=words):
        build_config(_spec(**serving), _SIGNATURE, 3, base=told, files=["model.plan"])


@pytest.mark.parametrize("target", ["python", "ensemble"])
@pytest.mark.parametrize("mode", ["latest", "all"])
def test_a_pinned_repository_refuses_another_version_policy(target: str, mode: str) -> None:
    """What would be overwritten without a word is refused when the release file is read."""
    form = "python" if target == "python" else "repository"
    text = f"model: a\nsource: {{format: {form}}}\nconversion: {{target: {target}}}\nserving: {{version_policy: %s}}\n"
    with pytest.raises(SpecError, match=r"`serving\.version_policy`.*pinned to the released version"):
        parse_release_spec(text % f"{{mode: {mode}}}", "a.yaml")
    parse_release_spec(text % "{mode: specific}", "a.yaml")
    parse_release_spec(text % "null", "a.yaml")


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
    config = _built(signature, 1, **sequences)
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
        _built(_SIGNATURE, 1, **sequences)


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
        (
            {"sequence_batching": {"strategy": "direct", "preferred_batch_sizes": [2]}},
            "does not go with `strategy: direct`",
        ),
        ({"max_batch_size": None}, "serving.max_batch_size"),
        ({"instances": [{"count": None}]}, "count"),
        ({"dynamic_batching": {"priority_levels": 2}}, "go together"),
        ({"hardware": {"compute_capability": "ada", "tensorrt": "10.13.2"}}, "compute_capability"),
    ],
)
def test_the_release_file_contradicts_itself(serving: dict[str, Any], words: str) -> None:
    """What can be seen in the release file alone is told when it is read."""
    with pytest.raises(SpecError) as refused:
        _spec(**serving)
    assert words in str(refused.value)
