"""A model's configuration in Triton's JSON form: built from the release file, pinned, compared by hash.

The keys are the field names of Triton's `ModelConfig`, as in `GET /v2/models/M/config` and in the override
of a load.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from include.model_release.errors import ModelInvalidError
from include.model_release.names import parse_version
from include.model_release.signature import ModelSignature, TensorSpec
from include.model_release.spec import InstanceGroup, ReleaseSpec, Serving

Config = dict[str, Any]

_BACKEND_FILE = re.compile(r"model\.py|(lib)?triton_\w+\.(so|dll)")

# Written out although Triton would derive them from the platform: then what is served hashes as what was
# published.
_BACKENDS = {"onnxruntime_onnx": "onnxruntime"}
MODEL_FILES = {"onnxruntime_onnx": "model.onnx"}
_KINDS = {"cpu": "KIND_CPU", "gpu": "KIND_GPU", "auto": "KIND_AUTO"}

# 64-bit fields: protobuf's JSON writes them as text, Triton's own JSON as numbers.
INTEGER_FIELDS = frozenset({
    "default_priority_level", "default_timeout_microseconds", "device_id", "dim", "dims",
    "max_queue_delay_microseconds", "max_sequence_idle_microseconds", "model_version", "priority_levels",
    "shape", "versions",
})  # fmt: skip
# The zero value of each enum: the same as leaving the field out.
ENUM_DEFAULTS = frozenset({
    "BATCH_ELEMENT_COUNT", "BATCH_SCATTER_WITH_INPUT_SHAPE", "CONTROL_SEQUENCE_START", "FORMAT_NONE",
    "KIND_AUTO", "KIND_NVDLA", "PRIORITY_DEFAULT", "REJECT", "TYPE_INVALID",
})  # fmt: skip
# Messages whose mere presence says something, even when empty.
PRESENCE_FIELDS = frozenset({
    "all", "direct", "dynamic_batching", "ensemble_scheduling", "latest", "oldest", "reshape",
    "sequence_batching", "specific",
})  # fmt: skip
# Maps with keys of the user's own choosing, which are kept whatever they hold.
MAP_FIELDS = frozenset({
    "cc_model_filenames", "input_map", "inputs", "metric_tags", "output_map", "parameters",
    "priority_queue_policy",
})  # fmt: skip
# What Triton fills in when a model is loaded.
_SERVED_DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("version_policy", {"latest": {"num_versions": 1}}),
    ("optimization", {"input_pinned_memory": {"enable": True}, "output_pinned_memory": {"enable": True}}),
)


def build_config(spec: ReleaseSpec, signature: ModelSignature, version: int) -> Config:
    """Return the configuration of one version of the model, as it is published.

    Raises ModelInvalidError when the signature does not suit the release file, such as a fixed batch
    dimension.
    """
    serving = spec.serving
    config: Config = {
        "name": spec.model,
        "platform": serving.platform,
        "backend": _BACKENDS[serving.platform],
        "default_model_filename": MODEL_FILES[serving.platform],
        "max_batch_size": serving.max_batch_size,
        "input": [_tensor(tensor, serving.max_batch_size) for tensor in signature.inputs],
        "output": [_tensor(tensor, serving.max_batch_size) for tensor in signature.outputs],
        "instance_group": [_instance_group(group) for group in serving.instances],
        "version_policy": _version_policy(serving, version),
    }
    if serving.dynamic_batching is not None:
        batching: Config = {"max_queue_delay_microseconds": serving.dynamic_batching.max_queue_delay_us}
        if serving.dynamic_batching.preferred_batch_sizes:
            batching["preferred_batch_size"] = list(serving.dynamic_batching.preferred_batch_sizes)
        config["dynamic_batching"] = batching
    return config


def pin_versions(config: Mapping[str, Any], versions: Sequence[int]) -> Config:
    """Return the whole `config` with a version policy that serves exactly `versions`.

    A load names a model, not a version, and a minimal override leaves a model that cannot be driven: so the
    whole goes.
    """
    if not versions:
        raise ValueError("at least one version must be served")
    pinned = copy.deepcopy(dict(config))
    pinned["version_policy"] = {
        "specific": {"versions": sorted(parse_version(version) for version in versions)}
    }
    return pinned


def rename_config(config: Mapping[str, Any], name: str) -> Config:
    """Return `config` for a model called `name`; the instances' names, which are made from it, go."""
    renamed = copy.deepcopy(dict(config))
    renamed["name"] = name
    for group in renamed.get("instance_group", []):
        group.pop("name", None)
    return renamed


def config_sha256(config: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of what `config` means.

    Equal for two configurations that Triton treats alike: the order of keys, unset or default fields,
    64-bit numbers written as text, and what Triton fills in by itself at load do not matter.
    """
    text = json.dumps(canonical_config(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_config(config: Mapping[str, Any]) -> Config:
    """Return the form of `config` that is hashed; good for showing a difference to a person."""
    canonical: Config = _canonical(config)
    for key, default in _SERVED_DEFAULTS:
        if canonical.get(key) == default:
            del canonical[key]
    # The backend's own file, which Triton looks up: another on a server with another build of the same
    # backend.
    if _BACKEND_FILE.fullmatch(str(canonical.get("runtime", ""))):
        del canonical["runtime"]
    batching = canonical.get("dynamic_batching", {})
    if batching.get("preferred_batch_size") == [canonical.get("max_batch_size")]:
        del batching["preferred_batch_size"]
    name = canonical.get("name")
    for index, group in enumerate(canonical.get("instance_group", [])):
        if group.get("name") in (name, f"{name}_{index}"):
            del group["name"]
    return canonical


def served_signature(config: Mapping[str, Any]) -> ModelSignature:
    """Return the signature that a server tells of a model with this `config`.

    It is what clients see, and may differ from the model file's own: a tensor of shape [-1] is served as
    [-1, 1].
    """
    batch = (-1,) if config.get("max_batch_size") else ()
    return ModelSignature(
        inputs=tuple(_served(tensor, batch) for tensor in config.get("input", ())),
        outputs=tuple(_served(tensor, batch) for tensor in config.get("output", ())),
    )


def _served(tensor: Mapping[str, Any], batch: tuple[int, ...]) -> TensorSpec:
    datatype = str(tensor["data_type"]).removeprefix("TYPE_")
    shape = (*batch, *(int(size) for size in tensor["dims"]))
    return TensorSpec.model_validate(
        {"name": tensor["name"], "datatype": "BYTES" if datatype == "STRING" else datatype, "shape": shape}
    )


def _canonical(value: Any, field: str = "") -> Any:
    if isinstance(value, Mapping):
        is_map = field in MAP_FIELDS
        below = {str(key): _canonical(item, "" if is_map else str(key)) for key, item in value.items()}
        return below if is_map else {key: item for key, item in below.items() if not _is_unset(key, item)}
    if isinstance(value, list | tuple):
        return [_canonical(item, field) for item in value]
    if field in INTEGER_FIELDS and isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _is_unset(field: str, value: Any) -> bool:
    if isinstance(value, dict):
        return not value and field not in PRESENCE_FIELDS
    return not value or (isinstance(value, str) and value in ENUM_DEFAULTS)


def _tensor(tensor: TensorSpec, max_batch_size: int) -> Config:
    data_type = "TYPE_STRING" if tensor.datatype == "BYTES" else f"TYPE_{tensor.datatype}"
    dims = list(tensor.shape)
    if max_batch_size:
        if not dims or dims[0] != -1:
            raise ModelInvalidError(
                f"the tensor `{tensor.name}` has no free batch dimension",
                expected="-1 as the first size, since `serving.max_batch_size` is above 0",
                found=str(tensor),
                remedy="Export the model with a dynamic batch dimension, or set `max_batch_size: 0` and "
                "`dynamic_batching: null` in the release file.",
            )
        dims = dims[1:]
    if dims:
        return {"name": tensor.name, "data_type": data_type, "dims": dims}
    # Triton wants at least one dimension; the model itself has none besides the batch.
    return {"name": tensor.name, "data_type": data_type, "dims": [1], "reshape": {"shape": []}}


def _instance_group(group: InstanceGroup) -> Config:
    result: Config = {"kind": _KINDS[group.kind], "count": group.count}
    if group.gpus:
        result["gpus"] = list(group.gpus)
    return result


def _version_policy(serving: Serving, version: int) -> Config:
    if serving.version_policy.mode == "latest":
        return {"latest": {"num_versions": serving.version_policy.count}}
    return {"specific": {"versions": [parse_version(version)]}}
