"""What a configuration means: properties of the text and of the hash over random valid ModelConfig messages."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from slipway_core.triton_config.canonical import canonical_config, config_sha256, is_set
from slipway_core.triton_config.fields import ROOT, fields_of
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt
from tests.support.examples import examples
from tests.support.triton_config.strategy import as_dict, model_configs, reachable

_FEW = settings(max_examples=examples(75), deadline=None)
# Lists that are sets to Triton, written here once more and by hand.
_SETS = {
    "input", "output", "instance_group", "versions", "graph_spec", "preferred_batch_size", "control_input",
    "state", "control", "step", "gpus", "profile", "resources", "batch_input", "batch_output", "metric_control",
}  # fmt: skip
# And those whose order counts: sizes, flags, what is tried or run in turn, what is taken by its place.
_SEQUENCES = {
    "dims", "shape", "dim", "buckets", "int32_false_true", "fp32_false_true", "bool_false_true",
    "model_warmup", "gpu_execution_accelerator", "cpu_execution_accelerator", "agents", "op_library_filename",
    "target_name", "source_input", "initial_state", "secondary_devices",
}  # fmt: skip


def test_every_list_is_one_or_the_other() -> None:
    """Whether order counts is decided for each list that ModelConfig has, and the code decides as is written here."""
    lists = {
        (message, name)
        for message in reachable()
        for name, kind in fields_of(message).items()
        if kind.form == "list"
    }
    assert {name for _, name in lists} == _SETS | _SEQUENCES
    assert {name for message, name in lists if is_set(message, name, {})} == _SETS


_RECORDED = Path(__file__).parents[3] / "support" / "triton_config" / "recorded" / "canonical.jsonl"


@pytest.mark.parametrize("line", _RECORDED.read_text().splitlines())
def test_a_recorded_configuration_keeps_its_canonical_form_and_its_hash(line: str) -> None:
    """Hashes lie in manifests: configurations of all kinds mean what they meant when these were written."""
    recorded = json.loads(line)
    assert canonical_config(recorded["config"]) == recorded["canonical"]
    assert config_sha256(recorded["config"]) == recorded["sha256"]


@_FEW
@given(model_configs())
def test_what_is_written_is_what_is_read(message: Any) -> None:
    """Any valid message: parse(write(c)) is c, and writing what was read gives the same text."""
    text = to_pbtxt(as_dict(message))
    assert text_format.Parse(text, model_config_pb2.ModelConfig()) == message
    assert from_pbtxt(text) == from_pbtxt(str(message))
    assert to_pbtxt(from_pbtxt(text)) == text


@_FEW
@given(model_configs(), st.randoms(use_true_random=False))
def test_the_hash_does_not_hang_on_the_writing(message: Any, chance: random.Random) -> None:
    """Defaults written out, 64-bit numbers as text, shuffled keys and sets, another layout: the same hash."""
    expected = config_sha256(from_pbtxt(to_pbtxt(as_dict(message))))
    assert config_sha256(as_dict(message, defaults=True)) == expected
    assert config_sha256(_shuffled(as_dict(message), chance, "")) == expected
    one_line = text_format.MessageToString(message, as_one_line=True, use_short_repeated_primitives=False)
    assert config_sha256(from_pbtxt(f"\n\n  {one_line}  # a remark\n")) == expected


def _shuffled(value: Any, chance: random.Random, field: str) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {key: _shuffled(item, chance, key) for key, item in items}
    if isinstance(value, list):
        items = [_shuffled(item, chance, field) for item in value]
        # LibTorch reads tensors by their place; such messages are made too seldom to look at the backend.
        if field in _SETS:
            chance.shuffle(items)
        return items
    return value


@_FEW
@given(model_configs(), st.data())
def test_another_meaning_gives_another_hash(message: Any, data: st.DataObject) -> None:
    """A number, a text, a flag or a choice that is changed to a value of its own changes the hash."""
    config = as_dict(message)
    places = list(_leaves(config, ROOT, ()))
    assume(places)
    path, scalar = data.draw(st.sampled_from(places))
    changed = copy.deepcopy(config)
    _set(changed, path, scalar)
    assume(changed != config)
    assert config_sha256(changed) != config_sha256(config)


# The backend's own file, and choices that are made by being named.
_NO_VALUE = ("runtime", "zero_data", "random_data")


def _leaves(value: dict[str, Any], message: str, path: tuple[Any, ...]) -> Any:
    for name, item in value.items():
        kind = fields_of(message)[name]
        entries: list[tuple[tuple[Any, ...], Any]] = [((*path, name), item)]
        if kind.form == "map":
            entries = [((*path, name, key), below) for key, below in item.items()]
        elif kind.form == "list":
            entries = [((*path, name, index), below) for index, below in enumerate(item)]
        for place, below in entries:
            if kind.message:
                yield from _leaves(below, kind.message, place)
            elif kind.scalar != "enum" and name not in _NO_VALUE:
                yield place, kind.scalar


def _set(config: dict[str, Any], path: tuple[Any, ...], scalar: str) -> None:
    place: Any = config
    for step in path[:-1]:
        place = place[step]
    old = place[path[-1]]
    new: Any = {"text": f"{old}~", "bool": not old, "float": 0.75, "double": 0.75}.get(scalar)
    place[path[-1]] = (7 if int(old) != 7 else 9) if scalar == "int" else new


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"platform": "onnxruntime_onnx"}, {"backend": "onnxruntime"}),
        ({"platform": "tensorrt_plan"}, {"backend": "tensorrt", "default_model_filename": "model.plan"}),
        ({"version_policy": {"latest": {"num_versions": 1}}}, {}),
        ({"version_policy": {}}, {"version_policy": {"all": {}}}),
        ({"optimization": {"input_pinned_memory": {"enable": True}}}, {}),
        ({"dynamic_batching": None}, {}),
        ({"sequence_batching": {"max_sequence_idle_microseconds": 1_000_000}}, {"sequence_batching": {}}),
        ({"sequence_batching": {}}, {"sequence_batching": {"direct": {}}}),
        ({"default_model_filename": "model.onnx"}, {"platform": "onnxruntime_onnx"}),
        ({"default_model_filename": "model.py"}, {"backend": "python"}),
        (
            {"max_batch_size": 8, "dynamic_batching": {"preferred_batch_size": [4, 2, 4]}},
            {"max_batch_size": 8, "dynamic_batching": {"preferred_batch_size": [2, 4]}},
        ),
        ({"model_warmup": [{"name": "w", "count": 1}]}, {"model_warmup": [{"name": "w"}]}),
        (
            {"model_warmup": [{"inputs": {"x": {"zero_data": False}}}]},
            {"model_warmup": [{"inputs": {"x": {"zero_data": True}}}]},
        ),
        (
            {"backend": "python", "instance_group": [{"kind": "KIND_CPU"}, {"count": 2}]},
            {"backend": "python", "instance_group": [{"count": 2}, {"kind": "KIND_CPU", "count": 1}]},
        ),
        (
            {"platform": "onnxruntime_onnx", "instance_group": [{"kind": "KIND_CPU"}]},
            {"platform": "onnxruntime_onnx", "instance_group": [{"kind": "KIND_CPU", "count": 2}]},
        ),
        (
            {"instance_group": [{"count": 2, "rate_limiter": {"priority": 1}}]},
            {"instance_group": [{"count": 2, "rate_limiter": {"priority": 0}}]},
        ),
        (
            {"max_batch_size": 8, "sequence_batching": {"oldest": {"preferred_batch_size": [8]}}},
            {"max_batch_size": 8, "sequence_batching": {"oldest": {}}},
        ),
        ({"instance_group": [{"name": "m_0", "count": 2}]}, {"instance_group": [{"count": 2}]}),
    ],
)
def test_what_triton_treats_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    """What Triton derives or fills in by itself may be written or not."""
    assert config_sha256({"name": "m", **one}) == config_sha256({"name": "m", **other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"optimization": {"input_pinned_memory": {}}}, {}),
        ({"version_policy": {}}, {}),
        ({"version_policy": {"latest": {}}}, {}),
        ({"sequence_batching": {}}, {}),
        ({"sequence_batching": {}}, {"sequence_batching": {"oldest": {}}}),
        (
            {"optimization": {"cuda": {"graph_spec": [{"batch_size": 2, "graph_lower_bound": {}}]}}},
            {"optimization": {"cuda": {"graph_spec": [{"batch_size": 2}]}}},
        ),
        (
            {"platform": "onnxruntime_onnx", "instance_group": [{"kind": "KIND_CPU"}]},
            {"platform": "onnxruntime_onnx", "instance_group": [{"kind": "KIND_CPU", "count": 1}]},
        ),
        (
            {"default_model_filename": "model.pt", "input": [{"name": "a"}, {"name": "b"}]},
            {"default_model_filename": "model.pt", "input": [{"name": "b"}, {"name": "a"}]},
        ),
        ({"sequence_batching": {"direct": {}}}, {"sequence_batching": {"oldest": {}}}),
        ({"input": [{"name": "x", "reshape": {}}]}, {"input": [{"name": "x"}]}),
        ({"parameters": {"a": {"string_value": "REJECT"}}}, {"parameters": {"a": {"string_value": ""}}}),
        ({"metric_tags": {"a": ""}}, {}),
        (
            {"backend": "pytorch", "input": [{"name": "a"}, {"name": "b"}]},
            {"backend": "pytorch", "input": [{"name": "b"}, {"name": "a"}]},
        ),
        ({"model_warmup": [{"name": "a"}, {"name": "b"}]}, {"model_warmup": [{"name": "b"}, {"name": "a"}]}),
    ],
)
def test_what_only_looks_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    """What says something by being there, or by its order, counts."""
    assert config_sha256({"name": "m", **one}) != config_sha256({"name": "m", **other})


@_FEW
@given(
    model_configs(),
    st.sampled_from(["", "onnxruntime_onnx", "tensorrt_plan", "pytorch_libtorch"]),
    st.sampled_from(["", "python"]),
)
def test_what_triton_fills_in_at_load_changes_nothing(message: Any, platform: str, backend: str) -> None:
    """Any valid message, completed as Triton's core completes it (`model_config_utils.cc`), hashes as before."""
    config = {**as_dict(message), "name": "m", "platform": platform, "backend": "" if platform else backend}
    config.pop("ensemble_scheduling", None)
    assert config_sha256(_completed(copy.deepcopy(config))) == config_sha256(config)


_KINDS = {
    "onnxruntime_onnx": ("onnxruntime", "model.onnx"),
    "tensorrt_plan": ("tensorrt", "model.plan"),
    "pytorch_libtorch": ("pytorch", "model.pt"),
}


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    """Of AutoCompleteBackendFields, NormalizeModelConfig and NormalizeInstanceGroup what needs no GPU to know."""
    if config["platform"]:
        config["backend"], file = _KINDS[config["platform"]]
        config["default_model_filename"] = config.get("default_model_filename") or file
    elif config["backend"]:
        config["default_model_filename"] = config.get("default_model_filename") or "model.py"
    config.setdefault("version_policy", {"latest": {"num_versions": 1}})
    sequences = config.get("sequence_batching", {})
    if sequences and not int(sequences.get("max_sequence_idle_microseconds", 0)):
        sequences["max_sequence_idle_microseconds"] = "1000000"
    for batching in (config.get("dynamic_batching"), sequences.get("oldest")):
        if batching is not None and config.get("max_batch_size", 0) > 0:
            batching["preferred_batch_size"] = batching.get("preferred_batch_size") or [
                config["max_batch_size"]
            ]
    for side in ("input_pinned_memory", "output_pinned_memory"):
        config.setdefault("optimization", {}).setdefault(side, {"enable": True})
    for index, group in enumerate(config.get("instance_group", ())):
        group["name"] = group.get("name") or f"m_{index}"
        known = config["backend"] and (config["backend"] != "onnxruntime" or group.get("kind") == "KIND_GPU")
        if known and not group.get("count"):
            group["count"] = 1
    return config


def test_a_newer_tritons_field_counts() -> None:
    """A field that the table does not know is kept when it says something and left out when it does not."""
    assert canonical_config({"name": "m", "brand_new": {}}) == {"name": "m"}
    assert canonical_config({"name": "m", "brand_new": {"a": 1}}) == {"name": "m", "brand_new": {"a": 1}}


def test_both_ways_to_schedule_cannot_be_written() -> None:
    """ModelConfig itself holds dynamic and sequence batching apart."""
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict(
            {"dynamic_batching": {}, "sequence_batching": {}}, model_config_pb2.ModelConfig()
        )
