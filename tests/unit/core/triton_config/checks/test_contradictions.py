"""Contradictions in a configuration are told with the field that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import ModelInvalidError
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.checks.contradictions import contradictions, require_consistent
from slipway_core.triton_config.pbtxt import from_pbtxt

_SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 4)),),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
)
_PROFILE = {"min": {"x": [1, 4]}, "opt": {"x": [4, 4]}, "max": {"x": [8, 4]}}
_GOOD = """
name: "ranker" backend: "tensorrt" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
instance_group { kind: KIND_GPU gpus: 0 profile: "0" }
version_policy { specific { versions: 3 } }
model_warmup { name: "w" batch_size: 4 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
"""


def _found(config: dict[str, Any], **more: Any) -> list[str]:
    case: dict[str, Any] = {"signature": _SIGNATURE, "profiles": [_PROFILE], "version": 3, **more}
    return [one.field for one in contradictions(config, **case)]


def test_nothing_is_wrong_with_a_good_one() -> None:
    """A configuration that fits model, engine and version has no contradiction."""
    assert _found(from_pbtxt(_GOOD)) == []
    require_consistent(from_pbtxt(_GOOD), signature=_SIGNATURE, profiles=[_PROFILE], version=3)


_WARMUP = {"data_type": "TYPE_FP32", "dims": [4], "zero_data": True}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_batch_size": 16}, "max_batch_size"),
        ({"dynamic_batching": {"preferred_batch_size": [4, 9]}}, "dynamic_batching.preferred_batch_size"),
        (
            {"sequence_batching": {"oldest": {"preferred_batch_size": [9]}}},
            "sequence_batching.oldest.preferred_batch_size",
        ),
        ({"dynamic_batching": {}, "sequence_batching": {}}, "dynamic_batching"),
        (
            {"dynamic_batching": {"priority_levels": 2, "default_priority_level": 3}},
            "dynamic_batching.default_priority_level",
        ),
        (
            {
                "dynamic_batching": {
                    "priority_levels": 1,
                    "default_priority_level": 1,
                    "priority_queue_policy": {"2": {}},
                }
            },
            "dynamic_batching.priority_queue_policy[2]",
        ),
        (
            {"response_cache": {"enable": True}, "model_transaction_policy": {"decoupled": True}},
            "response_cache",
        ),
        ({"response_cache": {"enable": True}, "sequence_batching": {"direct": {}}}, "response_cache"),
        ({"instance_group": [{"kind": "KIND_CPU", "gpus": [0]}]}, "instance_group[0].gpus"),
        ({"instance_group": [{"kind": "KIND_CPU"}]}, "instance_group[0].kind"),
        ({"instance_group": [{"kind": "KIND_GPU", "profile": ["1"]}]}, "instance_group[0].profile"),
        (
            {
                "instance_group": [
                    {"rate_limiter": {"resources": [{"name": "R"}, {"name": "R", "global": True}]}}
                ]
            },
            "instance_group[0].rate_limiter.resources",
        ),
        (
            {"instance_group": [{"kind": "KIND_CPU"}], "optimization": {"cuda": {"graphs": True}}},
            "optimization.cuda.graphs",
        ),
        (
            {
                "instance_group": [{"kind": "KIND_CPU"}],
                "optimization": {
                    "execution_accelerators": {"gpu_execution_accelerator": [{"name": "tensorrt"}]}
                },
            },
            "optimization.execution_accelerators.gpu_execution_accelerator",
        ),
        ({"version_policy": {"specific": {"versions": [1]}}}, "version_policy.specific"),
        ({"version_policy": {"latest": {}}}, "version_policy.latest.num_versions"),
        (
            {"input": [{"name": "z", "data_type": "TYPE_FP32", "dims": [4]}], "model_warmup": []},
            "input[0].name",
        ),
        (
            {"input": [{"name": "x", "data_type": "TYPE_INT32", "dims": [4]}], "model_warmup": []},
            "input[0].data_type",
        ),
        (
            {"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [5]}], "model_warmup": []},
            "input[0].dims",
        ),
        ({"output": [{"name": "q", "data_type": "TYPE_FP32", "dims": [2]}]}, "output[0].name"),
        ({"input": [], "model_warmup": []}, "input"),
        ({"model_warmup": [{"batch_size": 9, "inputs": {"x": _WARMUP}}]}, "model_warmup[0].batch_size"),
        ({"model_warmup": [{"inputs": {"x": _WARMUP, "z": _WARMUP}}]}, "model_warmup[0].inputs[z]"),
        ({"model_warmup": [{"inputs": {}}]}, "model_warmup[0].inputs"),
        (
            {"model_warmup": [{"inputs": {"x": {**_WARMUP, "dims": [5]}}}]},
            "model_warmup[0].inputs[x].dims",
        ),
        (
            {"model_warmup": [{"inputs": {"x": {**_WARMUP, "data_type": "TYPE_INT8"}}}]},
            "model_warmup[0].inputs[x].data_type",
        ),
    ],
)
def test_each_contradiction_names_its_field(change: dict[str, Any], field: str) -> None:
    """The field that is wrong is the first word of the complaint."""
    config = {**from_pbtxt(_GOOD), **change}
    assert field in _found(config)
    with pytest.raises(ModelInvalidError) as refused:
        require_consistent(config, signature=_SIGNATURE, profiles=[_PROFILE], version=3)
    assert f"`{field}`" in str(refused.value)


def _profile(least: int, most: int, width: int = 4) -> dict[str, dict[str, list[int]]]:
    return {"min": {"x": [least, width]}, "opt": {"x": [most, width]}, "max": {"x": [most, width]}}


@pytest.mark.parametrize(
    ("groups", "profiles", "size", "fields"),
    [
        ([{"kind": "KIND_GPU"}], [_profile(1, 4), _profile(1, 16)], 16, ["max_batch_size"]),
        ([{"kind": "KIND_GPU", "profile": ["1"]}], [_profile(1, 4), _profile(1, 16)], 16, []),
        ([{"kind": "KIND_GPU", "profile": ["0", "1"]}], [_profile(1, 4), _profile(1, 16)], 16, ["max_batch_size"]),
        (
            [{"kind": "KIND_GPU", "profile": ["1"]}, {"kind": "KIND_GPU"}],
            [_profile(1, 4), _profile(1, 16)],
            16,
            ["max_batch_size"],
        ),
        ([], [_profile(1, 4), _profile(1, 16)], 16, ["max_batch_size"]),
        ([], [_profile(1, 16)], 16, []),
        ([{"kind": "KIND_GPU"}], [_profile(4, 16)], 16, ["instance_group[0].profile"]),
        ([{"kind": "KIND_GPU", "profile": ["0", "1"]}], [_profile(4, 16), _profile(1, 16)], 16, []),
        ([{"kind": "KIND_GPU"}], [_profile(8, 16)], 4, ["max_batch_size", "instance_group[0].profile"]),
        ([{"kind": "KIND_GPU"}], [_profile(1, 16, width=5)], 16, ["input[0].dims"]),
        ([{"kind": "KIND_GPU", "profile": ["1"]}], [_profile(1, 16, width=5), _profile(1, 16)], 16, []),
    ],
    ids=[
        "profile 0 is the default", "the group's own", "each of the group's", "each group", "no group at all",
        "one profile", "no single row", "single rows elsewhere", "too small", "sizes", "sizes of its own",
    ],
)  # fmt: skip
def test_sizes_are_held_against_the_profiles_that_are_used(
    groups: list[dict[str, Any]], profiles: list[Any], size: int, fields: list[str]
) -> None:
    """Each group of instances over its own profiles, profile 0 where it names none; both ends of the batch count."""
    config = {**from_pbtxt(_GOOD), "max_batch_size": size, "instance_group": groups, "model_warmup": []}
    assert _found(config, profiles=profiles) == fields


@pytest.mark.parametrize(
    ("change", "files", "fields"),
    [
        ({}, ["model.plan"], []),
        ({}, ["model.plan/1", "model.plan/2"], []),
        ({}, [], []),
        ({"platform": "tensorrt_plan"}, ["model.onnx"], ["platform"]),
        ({}, ["model.onnx"], ["backend"]),
        ({"default_model_filename": "net.plan"}, ["model.plan"], ["default_model_filename"]),
        ({"default_model_filename": "net.plan"}, ["net.plan"], []),
        ({"cc_model_filenames": {"8.9": "ada.plan"}}, ["model.plan"], ["cc_model_filenames[8.9]"]),
        ({"platform": "onnxruntime_onnx"}, [], ["backend"]),
    ],
)
def test_the_file_that_is_published_is_the_one_that_is_served(
    change: dict[str, Any], files: list[str], fields: list[str]
) -> None:
    """Platform, backend and file names have to be those of what the conversion made."""
    config = {**from_pbtxt(_GOOD), "default_model_filename": "model.plan", **change}
    assert _found(config, files=files) == fields


@pytest.mark.parametrize(
    "more",
    [
        {"priority_levels": 2, "default_priority_level": 1},
        {"default_queue_policy": {"timeout_action": "DELAY", "default_timeout_microseconds": 5}},
        {"priority_queue_policy": {"1": {"timeout_action": "DELAY", "default_timeout_microseconds": 5}},
         "priority_levels": 1, "default_priority_level": 1},
    ],
)  # fmt: skip
def test_what_overtakes_does_not_keep_its_order(more: dict[str, Any]) -> None:
    """Triton refuses `preserve_ordering` with several priorities and with requests that are put off."""
    config = {**from_pbtxt(_GOOD), "dynamic_batching": {"preserve_ordering": True, **more}}
    assert _found(config) == ["dynamic_batching.preserve_ordering"]
    assert _found({**config, "dynamic_batching": more}) == []


def test_dynamic_batching_is_taken_without_batches() -> None:
    """Triton's core takes it with `max_batch_size: 0`, for its queue; it refuses only the size of a batch."""
    assert _found({"max_batch_size": 0, "dynamic_batching": {}}, signature=None) == []
    preferred = {"max_batch_size": 0, "dynamic_batching": {"preferred_batch_size": [1]}}
    assert _found(preferred, signature=None) == ["dynamic_batching.preferred_batch_size"]


@pytest.mark.parametrize("name", ["instance_group", "optimization", "model_warmup"])
def test_an_ensemble_runs_on_nothing(name: str) -> None:
    """Instances, optimisation and warm-up belong to the members of an ensemble."""
    value: Any = {"eager_batching": True} if name == "optimization" else [{"name": "a"}]
    config = {"platform": "ensemble", "ensemble_scheduling": {"step": []}, name: value}
    assert name in _found(config, signature=None)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """The first contradiction leads, the others follow."""
    config = {**from_pbtxt(_GOOD), "max_batch_size": 16, "version_policy": {"specific": {"versions": [1]}}}
    with pytest.raises(
        ModelInvalidError, match=r"`max_batch_size` is larger.*also `version_policy\.specific`"
    ):
        require_consistent(config, signature=_SIGNATURE, profiles=[_PROFILE], version=3)
