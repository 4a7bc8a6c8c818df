"""Serving options laid over a base: what the release file says counts, what it does not mention stays."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import ModelInvalidError, SpecError
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.pbtxt import from_pbtxt
from tests.support.triton_config.serving_options import (
    BASE,
    RICH,
    SEQUENCES,
    SIGNATURE,
    SPEC,
    built,
    fed_by_triton,
    nested,
    over_base,
    spec_with,
)


def test_a_base_stays_as_it_is() -> None:
    """Without a word in the release file only what a release must know is filled in: name, version, instances."""
    expected = {
        **from_pbtxt(BASE),
        "name": "ranker",
        "backend": "onnxruntime",
        "default_model_filename": "model.onnx",
        "instance_group": [{"kind": "KIND_CPU", "count": 1}],
        "version_policy": {"specific": {"versions": [3]}},
    }
    assert over_base() == expected


def test_an_engine_runs_on_a_gpu_unless_told_otherwise() -> None:
    """The default of one CPU instance is not for engines; written down, it is a contradiction."""
    config = build_config(spec_with(platform="tensorrt_plan"), SIGNATURE, 3)
    assert config["instance_group"] == [{"kind": "KIND_GPU", "count": 1}]
    with pytest.raises(ModelInvalidError, match=r"`instance_group\[0\]\.kind` does not go with an engine"):
        build_config(spec_with(platform="tensorrt_plan", instances=[{"kind": "cpu"}]), SIGNATURE, 3)


def test_contradictions_with_a_base_name_the_field() -> None:
    """Another model's name, another platform, a second way to schedule, a tensor that the model lacks."""
    cases: list[tuple[str, dict[str, Any], str]] = [
        ('name: "other"', {}, r"`name` is that of another model"),
        (BASE, {"platform": "tensorrt_plan"}, r"`platform` contradicts the release file"),
        (BASE, {"sequence_batching": {}}, r"`dynamic_batching` excludes `sequence_batching`"),
        (BASE.replace('"x"', '"z"'), {}, r"`input\[0\]\.name` is no input of the model"),
        (BASE, {"max_batch_size": 4}, r"`dynamic_batching\.preferred_batch_size` goes above"),
        (
            BASE,
            {"response_cache": True, "sequence_batching": {}, "dynamic_batching": None},
            r"response_cache",
        ),
    ]
    for base, serving, words in cases:
        with pytest.raises(ModelInvalidError, match=words):
            over_base(base, **serving)


def test_options_are_laid_over_a_base() -> None:
    """A written option replaces its own field and leaves its neighbours; false and 0 count as written."""
    config = over_base(
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
    base = SEQUENCES if option.startswith(("sequence_batching", "decoupled")) else RICH
    wanted = over_base(base, fed_by_triton(base))
    *above, last = field.split(".")
    place = wanted
    for key in above:
        place = place.setdefault(key, {})
    place[last] = expected
    assert over_base(base, fed_by_triton(base), **nested(option, value)) == wanted


def test_cuda_graphs_are_the_bases_to_say() -> None:
    """`cuda` alone turns them on; over a base that has `cuda` only what is written changes."""
    wanted = {"cuda": {"output_copy_stream": True}}
    gpu = BASE + "instance_group { kind: KIND_GPU }"
    assert over_base(gpu, optimization=wanted)["optimization"]["cuda"] == {
        "graphs": True,
        "output_copy_stream": True,
    }
    told = gpu.replace("optimization {", "optimization { cuda { busy_wait_events: true }")
    cuda = over_base(told, optimization=wanted)["optimization"]["cuda"]
    assert cuda == {"busy_wait_events": True, "output_copy_stream": True}


def test_the_strategy_of_sequences_is_the_bases() -> None:
    """Without a word it stays, and so do its options; another one replaces it; its options need it."""
    signature = fed_by_triton(SEQUENCES)
    direct = over_base(
        SEQUENCES, signature, sequence_batching={"strategy": "direct", "max_queue_delay_us": 7}
    )
    assert direct["sequence_batching"]["direct"] == {"max_queue_delay_microseconds": 7}
    assert "oldest" not in direct["sequence_batching"]
    assert direct["sequence_batching"]["state"], "which is no part of the strategy"
    with pytest.raises(
        ModelInvalidError, match=r"sequence_batching\.minimum_slot_utilization` does not go with"
    ):
        over_base(SEQUENCES, signature, sequence_batching={"minimum_slot_utilization": 0.5})
    with pytest.raises(
        ModelInvalidError, match=r"sequence_batching\.preferred_batch_sizes` does not go with"
    ):
        built(SIGNATURE, 3, sequence_batching={"preferred_batch_sizes": [2]})


def test_sizes_are_held_against_the_bases_largest_batch() -> None:
    """Where the release file says no `max_batch_size`, its sizes may go as high as the base's does, and no higher."""
    wide = BASE.replace("max_batch_size: 16", "max_batch_size: 128")
    config = over_base(wide, dynamic_batching={"preferred_batch_sizes": [100]})
    assert config["dynamic_batching"]["preferred_batch_size"] == [100]
    with pytest.raises(ModelInvalidError, match=r"preferred_batch_size` goes above"):
        over_base(dynamic_batching={"preferred_batch_sizes": [17]})


def test_what_was_made_says_which_platform_it_is() -> None:
    """Without a word on the platform the file's name decides, and with it file name and kind of instance."""
    engine = build_config(SPEC, SIGNATURE, 3, files=["model.plan"])
    assert (engine["platform"], engine["backend"]) == ("tensorrt_plan", "tensorrt")
    assert engine["default_model_filename"] == "model.plan"
    assert engine["instance_group"] == [{"kind": "KIND_GPU", "count": 1}]
    onnx = build_config(SPEC, SIGNATURE, 3, files=["model.onnx"])
    assert (onnx["platform"], onnx["default_model_filename"]) == ("onnxruntime_onnx", "model.onnx")
    over = build_config(SPEC, SIGNATURE, 3, base={"max_batch_size": 4}, files=["model.plan"])
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
        build_config(spec_with(**serving), SIGNATURE, 3, base=told, files=["model.plan"])


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
    everything = BASE.replace("specific { versions: 1 }", "all { }")
    assert over_base(everything)["version_policy"] == {"all": {}}


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
        spec_with(**serving)
    assert words in str(refused.value)
