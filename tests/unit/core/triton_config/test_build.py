"""A model's configuration: built, pinned, renamed, hashed by what it means, and written as config.pbtxt."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import ModelInvalidError, VersionInvalidError
from slipway_core.spec.release_file import ReleaseSpec, apply_overrides, parse_release_spec
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import (
    build_config,
    pin_versions,
    rename_config,
    served_signature,
)
from slipway_core.triton_config.canonical import canonical_config, config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt

_SPEC = parse_release_spec("model: digits\nsource: {}\n", "digits.yaml")
_SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="pixels", datatype="FP32", shape=(-1, 64)),),
    outputs=(
        TensorSpec(name="label", datatype="INT64", shape=(-1,)),
        TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 10)),
    ),
)


def _spec(**serving: Any) -> ReleaseSpec:
    return apply_overrides(_SPEC, {"serving": serving}, "the test")


def test_the_whole_configuration() -> None:
    """The release file's serving part and the signature become Triton's fields."""
    spec = _spec(
        max_batch_size=16,
        dynamic_batching={"max_queue_delay_us": 500, "preferred_batch_sizes": [4, 8]},
        instances=[{"kind": "gpu", "count": 2, "gpus": [0, 1]}],
    )
    assert build_config(spec, _SIGNATURE, 2) == {
        "name": "digits",
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "default_model_filename": "model.onnx",
        "max_batch_size": 16,
        "input": [{"name": "pixels", "data_type": "TYPE_FP32", "dims": [64]}],
        "output": [
            {"name": "label", "data_type": "TYPE_INT64", "dims": [1], "reshape": {"shape": []}},
            {"name": "probabilities", "data_type": "TYPE_FP32", "dims": [10]},
        ],
        "instance_group": [{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}],
        "version_policy": {"specific": {"versions": [2]}},
        "dynamic_batching": {"max_queue_delay_microseconds": 500, "preferred_batch_size": [4, 8]},
    }


def test_without_batching_the_first_dimension_stays() -> None:
    """A model without a batch dimension keeps its whole shapes and has no dynamic batching."""
    signature = ModelSignature(inputs=(TensorSpec(name="text", datatype="BYTES", shape=(1,)),), outputs=())
    config = build_config(_spec(max_batch_size=0, dynamic_batching=None), signature, 1)
    assert config["input"] == [{"name": "text", "data_type": "TYPE_STRING", "dims": [1]}]
    assert "dynamic_batching" not in config


def test_latest_versions_can_be_served() -> None:
    """The `latest` policy counts versions instead of naming one."""
    config = build_config(_spec(version_policy={"mode": "latest", "count": 2}), _SIGNATURE, 5)
    assert config["version_policy"] == {"latest": {"num_versions": 2}}


def test_a_single_number_without_a_batch_is_refused() -> None:
    """Triton would not load such a configuration, and says no more than that it failed to poll it."""
    signature = ModelSignature(inputs=(TensorSpec(name="rate", datatype="INT64", shape=()),), outputs=())
    with pytest.raises(ModelInvalidError, match="`rate` has no dimension, and the model takes no batch"):
        build_config(_spec(max_batch_size=0, dynamic_batching=None), signature, 1)


@pytest.mark.parametrize("shape", [(1, 64), (), (64,)])
def test_a_fixed_batch_dimension_is_refused(shape: tuple[int, ...]) -> None:
    """A model that takes one size only cannot be batched, and the message says what to do."""
    signature = ModelSignature(inputs=(TensorSpec(name="pixels", datatype="FP32", shape=shape),), outputs=())
    with pytest.raises(ModelInvalidError, match=r"`pixels` has no free batch dimension.*max_batch_size: 0"):
        build_config(_SPEC, signature, 1)


def test_pinning_and_renaming_leave_the_original_alone() -> None:
    """Pinning changes the version policy of a copy, renaming the name of a copy."""
    config = build_config(_SPEC, _SIGNATURE, 2)
    before = copy.deepcopy(config)
    pinned = pin_versions(config, [3, 2])
    assert pinned["version_policy"] == {"specific": {"versions": [2, 3]}}
    assert {**pinned, "version_policy": config["version_policy"]} == config
    config["instance_group"][0]["name"] = before["instance_group"][0]["name"] = "digits_0"
    renamed = rename_config(config, "digits_baseline")
    assert renamed["name"] == "digits_baseline"
    assert "name" not in renamed["instance_group"][0]
    assert config == before


def test_pinning_needs_real_versions() -> None:
    """No version at all, or one that is none, is refused."""
    with pytest.raises(ValueError, match="at least one"):
        pin_versions({}, [])
    with pytest.raises(VersionInvalidError):
        pin_versions({}, [0])


def test_the_published_version_pins_itself() -> None:
    """Pinning the version that a `specific` policy names changes nothing: what is served hashes as published."""
    config = build_config(_SPEC, _SIGNATURE, 2)
    assert config_sha256(pin_versions(config, [2])) == config_sha256(config)


def test_what_triton_fills_in_does_not_change_the_hash() -> None:
    """Defaults that a server adds to the configuration leave the hash as it was published."""
    config = build_config(_SPEC, _SIGNATURE, 2)
    served = copy.deepcopy(config)
    served["instance_group"][0].update(
        {
            "name": "digits_0",
            "gpus": [],
            "secondary_devices": [],
            "profile": [],
            "passive": False,
            "host_policy": "",
        }
    )
    served["input"][0].update({"format": "FORMAT_NONE", "is_shape_tensor": False, "optional": False})
    served["optimization"] = {
        "priority": "PRIORITY_DEFAULT",
        "input_pinned_memory": {"enable": True},
        "output_pinned_memory": {"enable": True},
        "gather_kernel_buffer_threshold": 0,
        "eager_batching": False,
    }
    served.update({"parameters": {}, "model_warmup": [], "cc_model_filenames": {}, "batch_input": []})
    served["dynamic_batching"].update(
        {"preserve_ordering": False, "priority_levels": 0, "priority_queue_policy": {}}
    )
    assert canonical_config(served) == canonical_config(config)
    assert config_sha256(served) == config_sha256(config)


@pytest.mark.parametrize(
    "change",
    [
        {"max_batch_size": 8},
        {"dynamic_batching": {}},
        {"version_policy": {"all": {}}},
        {"version_policy": {"latest": {"num_versions": 2}}},
        {"instance_group": [{"kind": "KIND_CPU", "count": 2}]},
        {"instance_group": [{"kind": "KIND_CPU", "count": 1, "name": "special"}]},
        {"parameters": {"threads": {"string_value": ""}}},
        {"output": []},
        {"optimization": {"input_pinned_memory": {}}},
    ],
)
def test_what_matters_changes_the_hash(change: dict[str, Any]) -> None:
    """A change that Triton would act upon gives another hash."""
    config = build_config(_SPEC, _SIGNATURE, 2)
    assert config_sha256({**config, **change}) != config_sha256(config)


def test_the_served_signature_is_what_clients_see() -> None:
    """Shapes as a server tells them: with the batch dimension, and a scalar per row as a dimension of one."""
    served = served_signature(build_config(_SPEC, _SIGNATURE, 2))
    assert [str(tensor) for tensor in served.inputs] == ["FP32[-1, 64]"]
    assert [str(tensor) for tensor in served.outputs] == ["INT64[-1, 1]", "FP32[-1, 10]"]
    text = ModelSignature(inputs=(TensorSpec(name="text", datatype="BYTES", shape=(1,)),), outputs=())
    unbatched = build_config(_spec(max_batch_size=0, dynamic_batching=None), text, 1)
    assert served_signature(unbatched) == text


def test_batching_with_defaults_is_not_no_batching() -> None:
    """`dynamic_batching {}` switches batching on: its presence counts even when it is empty."""
    assert config_sha256({"name": "m", "dynamic_batching": {}}) != config_sha256({"name": "m"})
    zero_delay = {"name": "m", "dynamic_batching": {"max_queue_delay_microseconds": "0"}}
    assert config_sha256({"name": "m", "dynamic_batching": {}}) == config_sha256(zero_delay)


_SERVINGS = st.fixed_dictionaries(
    {
        "max_batch_size": st.integers(1, 256),
        "dynamic_batching": st.none() | st.fixed_dictionaries({"max_queue_delay_us": st.integers(0, 10**6)}),
        "instances": st.lists(
            st.fixed_dictionaries(
                {"kind": st.sampled_from(["cpu", "gpu", "auto"]), "count": st.integers(1, 4)}
            ),
            min_size=1,
            max_size=3,
        ),
        "version_policy": st.fixed_dictionaries({"mode": st.sampled_from(["specific", "latest"])}),
    }
)


@given(_SERVINGS, st.integers(1, 2**63 - 1))
def test_config_pbtxt_keeps_what_a_configuration_means(serving: dict[str, Any], version: int) -> None:
    """Written as config.pbtxt and read again, a configuration has the same hash and gives the same text."""
    config = build_config(_spec(**serving), _SIGNATURE, version)
    text = to_pbtxt(config)
    again = from_pbtxt(text)
    assert config_sha256(again) == config_sha256(config)
    assert to_pbtxt(again) == text


@given(st.permutations(list(build_config(_SPEC, _SIGNATURE, 2).items())))
def test_the_order_of_keys_means_nothing(items: list[tuple[str, Any]]) -> None:
    """The same fields in another order give the same hash and the same text."""
    config = build_config(_SPEC, _SIGNATURE, 2)
    assert config_sha256(dict(items)) == config_sha256(config)
    assert to_pbtxt(dict(items)) == to_pbtxt(config)


def test_wrong_fields_and_texts_are_refused() -> None:
    """A field that ModelConfig lacks, or a text that is cut short, gives ModelInvalidError."""
    with pytest.raises(ModelInvalidError, match="no_such_field"):
        to_pbtxt({"name": "digits", "no_such_field": 1})
    with pytest.raises(ModelInvalidError, match=r"config\.pbtxt cannot be read"):
        from_pbtxt('name: "digits" input {')
