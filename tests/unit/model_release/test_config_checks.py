"""Contradictions in a configuration are told with the field that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from include.model_release.config_checks import contradictions, require_consistent
from include.model_release.errors import ModelInvalidError
from include.model_release.signature import ModelSignature, TensorSpec
from include.triton_config import from_pbtxt

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
            {"dynamic_batching": {"priority_queue_policy": {"1": {}}}},
            "dynamic_batching.priority_queue_policy[1]",
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


def test_no_batch_dimension_leaves_nothing_to_batch() -> None:
    """`max_batch_size: 0` and dynamic batching do not go together."""
    assert _found({"max_batch_size": 0, "dynamic_batching": {}}, signature=None) == ["dynamic_batching"]


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
