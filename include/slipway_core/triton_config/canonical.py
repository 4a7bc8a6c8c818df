"""The canonical form and the hash of a configuration: one for all configurations that Triton treats alike."""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping
from typing import Any

from slipway_core.triton_config.fields import ROOT, FieldKind, fields_of, with_numbers

_BACKEND_FILE = re.compile(r"model\.py|(lib)?triton_\w+\.(so|dll)")
# Outside oneofs, messages whose mere presence says something: without `reshape` a tensor keeps its shape,
# without a word on pinned memory it is on, which `{}` (enable: false) turns off, without a lower bound a CUDA graph
# is for its own size alone, and without a version policy the latest version is served, with `{}` every one.
_PRESENT = {
    ("ModelConfig", "version_policy"),
    ("ModelInput", "reshape"),
    ("ModelOutput", "reshape"),
    ("ModelOptimizationPolicy", "input_pinned_memory"),
    ("ModelOptimizationPolicy", "output_pinned_memory"),
    ("ModelOptimizationPolicy.Cuda.GraphSpec", "graph_lower_bound"),
}
# Lists that are sets to Triton: tensors go by name, groups of instances are all started, steps of an ensemble
# run when their inputs are there. Warm-ups run in turn and accelerators are tried in turn: those stay ordered.
_UNORDERED = {
    ("ModelConfig", "input"),
    ("ModelConfig", "output"),
    ("ModelConfig", "batch_input"),
    ("ModelConfig", "batch_output"),
    ("ModelConfig", "instance_group"),
    ("ModelVersionPolicy.Specific", "versions"),
    ("ModelOptimizationPolicy.Cuda", "graph_spec"),
    ("ModelDynamicBatching", "preferred_batch_size"),
    ("ModelSequenceBatching", "control_input"),
    ("ModelSequenceBatching", "state"),
    ("ModelSequenceBatching.ControlInput", "control"),
    ("ModelSequenceBatching.StrategyOldest", "preferred_batch_size"),
    ("ModelEnsembling", "step"),
    ("ModelInstanceGroup", "gpus"),
    ("ModelInstanceGroup", "profile"),
    ("ModelRateLimiter", "resources"),
    ("ModelMetrics", "metric_control"),
}
# Sets in which it does not matter either how often something is named.
_ONCE = {
    ("ModelVersionPolicy.Specific", "versions"),
    ("ModelDynamicBatching", "preferred_batch_size"),
    ("ModelSequenceBatching.StrategyOldest", "preferred_batch_size"),
}
# Choices that are made by being named, whatever their value.
_CHOSEN = {
    ("ModelWarmup.Input", "zero_data"),
    ("ModelWarmup.Input", "random_data"),
    ("ModelSequenceBatching.InitialState", "zero_data"),
}
# LibTorch may take tensors by their place in the list.
_BY_POSITION = {"pytorch", "pytorch_libtorch"}
# Triton derives the backend from the platform, and the file's name from the backend.
BACKENDS = {"onnxruntime_onnx": "onnxruntime", "tensorrt_plan": "tensorrt", "pytorch_libtorch": "pytorch"}
_SEQUENCE_IDLE_US = 1_000_000
_PLATFORMS = {backend: platform for platform, backend in BACKENDS.items()}
MODEL_FILES = {
    "onnxruntime_onnx": "model.onnx",
    "tensorrt_plan": "model.plan",
    "pytorch_libtorch": "model.pt",
    "python": "model.py",
    "openvino": "model.xml",
}
_ONE_INSTANCE = {"tensorrt", "pytorch", "python"}


def config_sha256(config: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of what `config` means.

    Equal for two configurations that Triton treats alike: the order of keys and of lists that are sets,
    unset or default fields, 64-bit numbers written as text, and what Triton fills in by itself at load do not
    matter.
    """
    return hashlib.sha256(_text(canonical_config(config)).encode()).hexdigest()


def canonical_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of `config` that is hashed; good for showing a difference to a person."""
    plain = with_numbers(config)
    _drop_instance_names(plain)
    _fill_platform(plain)
    canonical = _message(plain, ROOT, ordered_tensors=not is_set(ROOT, "input", plain))
    _fill_choices(canonical)
    _fill_counts(canonical)
    _drop_served_defaults(canonical)
    _drop_ones(canonical)
    if "instance_group" in canonical:
        canonical["instance_group"].sort(key=_text)
    return canonical


def is_set(message: str, field: str, config: Mapping[str, Any]) -> bool:
    """Return whether the order of a list means nothing to Triton.

    :param config: the whole configuration that the list is part of.
    """
    if message == ROOT and field in ("input", "output"):
        return not {config.get("backend"), config.get("platform")} & _BY_POSITION
    return (message, field) in _UNORDERED


def model_file(config: Mapping[str, Any]) -> str | None:
    """Return the name of the file that Triton derives from platform and backend; None if it derives none."""
    backend = str(config.get("backend") or "")
    return MODEL_FILES.get(str(config.get("platform") or _PLATFORMS.get(backend, backend)))


def _fill_platform(config: dict[str, Any]) -> None:
    """Write out what Triton derives: the backend from the platform or the file, the platform, the file's name."""
    if not (config.get("platform") or config.get("backend")):
        for kind, file in MODEL_FILES.items():
            if file == config.get("default_model_filename"):
                config["backend"] = BACKENDS.get(kind, kind)
    if config.get("platform") in BACKENDS and not config.get("backend"):
        config["backend"] = BACKENDS[config["platform"]]
    if config.get("backend") in _PLATFORMS and not config.get("platform"):
        config["platform"] = _PLATFORMS[config["backend"]]
    if model_file(config) and not config.get("default_model_filename"):
        config["default_model_filename"] = model_file(config)


def _fill_choices(canonical: dict[str, Any]) -> None:
    """Name the choice that an empty oneof is. Seen with Triton 2.51: `version_policy {}` serves all versions."""
    if canonical.get("version_policy") == {}:
        canonical["version_policy"] = {"all": {}}
    sequences = canonical.get("sequence_batching")
    if sequences is not None and "oldest" not in sequences:
        sequences.setdefault("direct", {})


def _fill_counts(canonical: dict[str, Any]) -> None:
    """Write out how many instances a group has where it does not say.

    ONNX Runtime has two on the CPU, where KIND_AUTO is the server's to decide; of other backends than these it is
    not known.
    """
    backend = canonical.get("backend")
    for group in canonical.get("instance_group", ()):
        if backend in _ONE_INSTANCE or (backend == "onnxruntime" and group.get("kind") == "KIND_GPU"):
            group.setdefault("count", 1)
        elif backend == "onnxruntime" and group.get("kind") == "KIND_CPU":
            group.setdefault("count", 2)


def _drop_served_defaults(canonical: dict[str, Any]) -> None:
    """Remove what Triton fills in by itself when a model is loaded."""
    if canonical.get("version_policy") == {"latest": {"num_versions": 1}}:
        del canonical["version_policy"]
    optimization = canonical.get("optimization", {})
    for side in ("input_pinned_memory", "output_pinned_memory"):
        if optimization.get(side) == {"enable": True}:
            del optimization[side]
    if "optimization" in canonical and not optimization:
        del canonical["optimization"]
    # The backend's own file, which Triton looks up: another on a server with another build of the same
    # backend.
    if _BACKEND_FILE.fullmatch(str(canonical.get("runtime", ""))):
        del canonical["runtime"]
    sequences = canonical.get("sequence_batching", {})
    if sequences.get("max_sequence_idle_microseconds") == _SEQUENCE_IDLE_US:
        del sequences["max_sequence_idle_microseconds"]
    for batching in (canonical.get("dynamic_batching", {}), sequences.get("oldest", {})):
        if batching.get("preferred_batch_size") == [canonical.get("max_batch_size")]:
            del batching["preferred_batch_size"]


def _drop_ones(canonical: dict[str, Any]) -> None:
    """Remove the 1 where Triton takes 0 for it: how often a warm-up is sent, an instance's priority."""
    for sample in canonical.get("model_warmup", ()):
        if sample.get("count") == 1:
            del sample["count"]
    for group in canonical.get("instance_group", ()):
        limiter = group.get("rate_limiter", {})
        if limiter.get("priority") == 1:
            del limiter["priority"]
        if limiter == {}:
            group.pop("rate_limiter", None)


def _drop_instance_names(config: dict[str, Any]) -> None:
    """Remove the names that Triton makes of the model's name and the group's place; the lists are copies."""
    name = config.get("name")
    for index, group in enumerate(config.get("instance_group") or ()):
        if group.get("name") and group["name"] in (name, f"{name}_{index}"):
            del group["name"]


def _message(value: Mapping[str, Any], message: str, *, ordered_tensors: bool = False) -> dict[str, Any]:
    fields, result = fields_of(message), {}
    for name, item in value.items():
        kind = fields.get(name)
        if item is None:
            continue
        if kind is None:
            if item:  # a field of a newer Triton: kept when it says something
                result[name] = item
            continue
        below = _field(item, kind)
        tensors = ordered_tensors and name in ("input", "output")
        if kind.form == "list" and (message, name) in _UNORDERED and not tensors:
            below = sorted(below, key=_text)
        if (message, name) in _ONCE:
            below = sorted(set(below), key=_text)
        if (message, name) in _CHOSEN:
            below = True
        if not _says_nothing(below, kind, (message, name)):
            result[name] = below
    return result


def _field(value: Any, kind: FieldKind) -> Any:
    if kind.form == "map":
        return {str(key): _one(item, kind) for key, item in value.items()}
    if kind.form == "list":
        return [_one(item, kind) for item in value]
    return _one(value, kind)


def _one(value: Any, kind: FieldKind) -> Any:
    if kind.message:
        return _message(value, kind.message)
    if kind.scalar in ("float", "double") and isinstance(value, int | float | str):
        return _float(float(value), single=kind.scalar == "float")
    return value


def _float(value: float, *, single: bool) -> float | str:
    """Return the number as protobuf keeps it, in a form that JSON can hold; with `single` the nearest of 32 bits."""
    if not math.isfinite(value):
        return str(value)
    return float(struct.unpack("f", struct.pack("f", value))[0]) if single else value


def _says_nothing(value: Any, kind: FieldKind, place: tuple[str, str]) -> bool:
    if kind.form != "one":
        return not value
    if kind.in_oneof or place in _PRESENT:
        return False
    return not value if kind.message else bool(value == kind.zero)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
