"""A model's configuration in Triton's JSON form: built from the release file, pinned, renamed.

The keys are the field names of Triton's `ModelConfig`, as in `GET /v2/models/M/config` and in the override
of a load.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from slipway_core.errors import ModelInvalidError
from slipway_core.identifiers import parse_version
from slipway_core.spec.release_file import InstanceGroup, ReleaseSpec, Serving, VersionPolicy
from slipway_core.tensors import DATATYPES, ModelSignature, TensorSpec
from slipway_core.triton_config.canonical import (
    BACKENDS,
    model_file,
)
from slipway_core.triton_config.checks.batch_tensors import batch_targets
from slipway_core.triton_config.checks.contradictions import (
    EngineProfile,
    require_consistent,
    require_named,
)
from slipway_core.triton_config.checks.onnxruntime import is_onnxruntime
from slipway_core.triton_config.files import platform_of
from slipway_core.triton_config.options import (
    Config,
    batching_fields,
    data_type,
    instance_fields,
    laid_over,
    optimization_fields,
    parameter_fields,
    sequence_fields,
)
from slipway_core.triton_config.warmup import make_warmup
from slipway_rules.row_axes import RowAxis


def build_config(
    spec: ReleaseSpec,
    signature: ModelSignature,
    version: int,
    *,
    base: Mapping[str, Any] | None = None,
    profiles: Sequence[EngineProfile] = (),
    golden: Mapping[str, Any] | None = None,
    files: Collection[str] = (),
    overridable: Collection[TensorSpec] = (),
) -> Config:
    """Return the configuration of one version of the release's model, as it is published.

    See `build_model_config`.
    """
    return build_model_config(
        spec.model,
        spec.serving,
        signature,
        version,
        base=base,
        profiles=profiles,
        golden=golden,
        row_axis=spec.golden.row_axis,
        files=files,
        overridable=overridable,
    )


def build_model_config(
    name: str,
    serving: Serving,
    signature: ModelSignature,
    version: int,
    *,
    base: Mapping[str, Any] | None = None,
    profiles: Sequence[EngineProfile] = (),
    golden: Mapping[str, Any] | None = None,
    row_axis: Mapping[str, RowAxis] | None = None,
    files: Collection[str] = (),
    overridable: Collection[TensorSpec] = (),
) -> Config:
    """Return the configuration of one version of the model called `name`, as it is published.

    :param base: what training left as config.pbtxt. The release file's options are laid over it, and what the
        release file does not mention stays.
    :param profiles: the optimisation profiles of an engine.
    :param golden: the golden set's arrays; needed only for warm-up with golden rows.
    :param row_axis: which axis of them counts the rows, where the release file says it.
    :param files: the names of what is published in the version's folder. They tell the platform where nothing else
        does.
    :param overridable: the model's initializers that a request may replace.
    :raises ModelInvalidError: where the signature does not suit the release file, such as a fixed batch dimension, or
        two fields contradict each other; it names the field.
    :raises GoldenSetError: as `make_warmup` does.
    """
    require_named(base or {})
    config = _identity(name, serving, base, files)
    config["max_batch_size"] = max_batch_size_of(serving, base)
    config.update(_tensors(serving, config, signature))
    _set_instances(config, serving)
    _set_version_policy(config, serving, version, base)
    config = laid_over(config, _options(serving, base))
    if "warmup" in serving.model_fields_set:
        config.pop("model_warmup", None)
    if serving.warmup:
        config["model_warmup"] = list(make_warmup(serving.warmup, config, golden or {}, row_axis).entries)
    known: dict[str, Any] = {"signature": signature, "profiles": profiles, "version": version}
    require_consistent(config, **known, files=files, overridable=overridable)
    return config


def pin_versions(config: Mapping[str, Any], versions: Sequence[int]) -> Config:
    """Return the whole `config` with a version policy that serves exactly `versions`.

    A load names a model, not a version, and a load with the version policy alone gives a model without its other
    settings. So the whole configuration is sent.
    """
    if not versions:
        raise ValueError("at least one version must be served")
    pinned = copy.deepcopy(dict(config))
    pinned["version_policy"] = {
        "specific": {"versions": sorted(parse_version(version) for version in versions)}
    }
    return pinned


def rename_config(config: Mapping[str, Any], name: str) -> Config:
    """Return `config` for a model called `name`, without the instances' names, which Triton makes of the old one."""
    renamed = copy.deepcopy(dict(config))
    renamed["name"] = name
    for group in renamed.get("instance_group", []):
        group.pop("name", None)
    return renamed


def served_signature(config: Mapping[str, Any]) -> ModelSignature:
    """Return the signature that a server tells of a model with this `config`.

    It is what clients see, and may differ from the model file's own: a tensor of shape [-1] is served as
    [-1, 1].

    :raises ModelInvalidError: for a tensor that lacks a name, a type that clients know, or sizes from -1 on.
    """
    require_named(config)
    batch = (-1,) if config.get("max_batch_size") else ()
    return ModelSignature(
        inputs=tuple(_served(tensor, batch) for tensor in config.get("input", ())),
        outputs=tuple(_served(tensor, batch) for tensor in config.get("output", ())),
    )


def _served(tensor: Mapping[str, Any], batch: tuple[int, ...]) -> TensorSpec:
    datatype = str(tensor.get("data_type") or "").removeprefix("TYPE_")
    sizes = tuple(int(size) for size in tensor.get("dims") or ())
    known = datatype == "STRING" or datatype in DATATYPES
    if not sizes or min(sizes) < -1 or not known:
        raise ModelInvalidError(
            f"the tensor `{tensor['name']}` of config.pbtxt cannot be served",
            expected="`data_type` and `dims`, with -1 for a size that varies",
            found=f"{datatype or 'no type'}, {list(sizes)}",
            remedy="Write both in config.pbtxt.",
        )
    shape = (*batch, *sizes)
    return TensorSpec.model_validate(
        {"name": tensor["name"], "datatype": "BYTES" if datatype == "STRING" else datatype, "shape": shape}
    )


def _says(serving: Serving, field: str, base: Mapping[str, Any] | None) -> bool:
    """Return whether the release file's value counts: always without a base, else where it is written."""
    return base is None or field in serving.model_fields_set


def _removes(serving: Serving, field: str) -> bool:
    """Return whether the release file says `null`."""
    return field in serving.model_fields_set and getattr(serving, field) is None


def _identity(name: str, serving: Serving, base: Mapping[str, Any] | None, files: Collection[str]) -> Config:
    config: Config = copy.deepcopy(dict(base or {}))
    if config.get("name") not in (None, "", name):
        raise ModelInvalidError(
            f"config.pbtxt of {name}: `name` is that of another model",
            expected=name,
            found=str(config["name"]),
            remedy="Leave `name` out of the config.pbtxt that training writes, or correct it.",
        )
    config = {"name": name, **{key: value for key, value in config.items() if key != "name"}}
    if _removes(serving, "platform"):
        config = laid_over(config, {"platform": None, "backend": None})
    identity = {key: config[key] for key in ("platform", "backend") if config.get(key)}
    if serving.platform is not None:
        _require_same_kind(name, serving.platform, identity)
        config.update(_kind_fields(serving.platform))
    elif not identity:
        config.update(_kind_fields(platform_of(files) or "onnxruntime_onnx"))
    elif config.get("platform") in BACKENDS:
        config.setdefault("backend", BACKENDS[config["platform"]])
    file = model_file(config)
    if file and not config.get("default_model_filename"):
        config["default_model_filename"] = file
    return config


def _require_same_kind(name: str, platform: str, identity: Mapping[str, str]) -> None:
    kinds = _kind_fields(platform)
    for key, value in identity.items():
        if kinds.get(key, value) != value:
            raise ModelInvalidError(
                f"config.pbtxt of {name}: `{key}` contradicts the release file",
                expected=f"{kinds[key]}, for `serving.platform: {platform}`",
                found=value,
                remedy="Correct one of the two.",
            )


def _kind_fields(platform: str) -> Config:
    # The backend is written out although Triton would derive it: then what is served reads as what was
    # published.
    if platform == "tensorrt_llm":
        return {"backend": "tensorrtllm"}
    if platform == "python":
        return {"backend": "python"}
    return {"platform": platform, **({"backend": BACKENDS[platform]} if platform in BACKENDS else {})}


def max_batch_size_of(serving: Serving, base: Mapping[str, Any] | None) -> int:
    """Return the largest batch of the configuration that is made of the release file and `base`."""
    if base is None or "max_batch_size" in serving.model_fields_set:
        return serving.max_batch_size
    return int(base.get("max_batch_size") or 0)


def _tensors(serving: Serving, config: Mapping[str, Any], signature: ModelSignature) -> Config:
    """Return the base's tensors where it names them; else the model's, without those that Triton itself feeds."""
    fed, kept = _fed_by_triton(serving, config)
    size = int(config["max_batch_size"])
    fields: Config = {}
    if not config.get("input"):
        fields["input"] = [_tensor(tensor, size) for tensor in signature.inputs if tensor.name not in fed]
    if is_onnxruntime(config) and config.get("output"):
        fields["output"] = [_exact(entry, signature, size) for entry in config["output"]]
    if not config.get("output"):
        fields["output"] = [_tensor(tensor, size) for tensor in signature.outputs if tensor.name not in kept]
    return fields


def _exact(entry: Mapping[str, Any], signature: ModelSignature, max_batch_size: int) -> Config:
    """Return an output with the model's own size where it says -1 for one that the model fixes.

    The ONNX Runtime backend takes nothing else, and derives more sizes than the model's file states.
    """
    tensor, dims = signature.output(str(entry.get("name"))), entry.get("dims") or ()
    own = () if tensor is None else tensor.shape[1 if max_batch_size else 0 :]
    if entry.get("reshape") is not None or len(own) != len(dims):
        return dict(entry)
    sizes = [theirs if int(ours) == -1 else int(ours) for ours, theirs in zip(dims, own, strict=True)]
    return {**entry, "dims": sizes}


def _fed_by_triton(serving: Serving, config: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the names of the inputs that Triton makes (controls, states, of a batch), and of the outputs it keeps."""
    sequence = laid_over(config, _options(serving, config)).get("sequence_batching") or {}
    states = sequence.get("state", ())
    controls = {str(one["name"]) for one in sequence.get("control_input", ())}
    return (
        controls | {str(state["input_name"]) for state in states} | {*batch_targets(config, "batch_input")},
        {str(state["output_name"]) for state in states},
    )


def _tensor(tensor: TensorSpec, max_batch_size: int) -> Config:
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
    elif not dims:
        raise ModelInvalidError(
            f"the tensor `{tensor.name}` has no dimension, and the model takes no batch",
            expected="one dimension at least: Triton serves no single numbers without a batch",
            found=str(tensor),
            remedy="Export it with the shape [1], or as ONNX, which the converter makes so.",
        )
    kind = data_type(tensor.datatype)
    if dims:
        return {"name": tensor.name, "data_type": kind, "dims": dims}
    # Triton wants at least one dimension; the model itself has none besides the batch.
    return {"name": tensor.name, "data_type": kind, "dims": [1], "reshape": {"shape": []}}


def _set_instances(config: Config, serving: Serving) -> None:
    """Set what the release file says, else what the base has, else one instance where the model can run."""
    if _removes(serving, "instances"):
        config.pop("instance_group", None)
    if serving.instances is not None:
        config["instance_group"] = [instance_fields(group) for group in serving.instances]
    elif not config.get("instance_group") and config.get("platform") != "ensemble":
        group = InstanceGroup(kind="gpu" if config.get("backend") == "tensorrt" else "cpu")
        if _asks_for_gpu(config) and not _removes(serving, "optimization"):
            group = InstanceGroup(kind="auto")
        config["instance_group"] = [instance_fields(group)]


def _asks_for_gpu(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration without instances is tuned for a GPU, where Triton itself would put them."""
    optimization = config.get("optimization") or {}
    accelerators = optimization.get("execution_accelerators") or {}
    return bool(
        (optimization.get("cuda") or {}).get("graphs") or accelerators.get("gpu_execution_accelerator")
    )


def _set_version_policy(
    config: Config, serving: Serving, version: int, base: Mapping[str, Any] | None
) -> None:
    """Set the version policy: a base may say `latest` or `all`; the number of `specific` is the release's to say."""
    base_policy = (base or {}).get("version_policy")
    if (
        "version_policy" not in serving.model_fields_set
        and base_policy is not None
        and "specific" not in base_policy
    ):
        return
    policy = serving.version_policy or VersionPolicy()
    config["version_policy"] = {
        "specific": {"specific": {"versions": [parse_version(version)]}},
        "latest": {"latest": {"num_versions": policy.count}},
        "all": {"all": {}},
    }[policy.mode]


def _options(serving: Serving, base: Mapping[str, Any] | None) -> Config:
    """Return what the release file says beside tensors, instances, versions and warm-up; `None` removes a field."""
    given, whole = serving.model_fields_set, base is None
    fields: Config = {}
    if _says(serving, "dynamic_batching", base):
        batching = serving.dynamic_batching
        fields["dynamic_batching"] = None if batching is None else batching_fields(batching, whole=whole)
    if _says(serving, "sequence_batching", base):
        fields["sequence_batching"] = _sequence(serving, base)
    if "optimization" in given:
        base_options, wanted = (base or {}).get("optimization") or {}, serving.optimization
        fields["optimization"] = None if wanted is None else optimization_fields(wanted, base_options)
    if "response_cache" in given:
        cached = serving.response_cache
        fields["response_cache"] = None if cached is None else {"enable": cached}
    if "decoupled" in given:
        decoupled = serving.decoupled
        fields["model_transaction_policy"] = None if decoupled is None else {"decoupled": decoupled}
    if "parameters" in given:
        fields["parameters"] = None if serving.parameters is None else parameter_fields(serving.parameters)
    if "metric_tags" in given:
        fields["metric_tags"] = serving.metric_tags
    return fields


def _sequence(serving: Serving, base: Mapping[str, Any] | None) -> Config | None:
    if serving.sequence_batching is None:
        return None
    given = None if base is None else base.get("sequence_batching") or {}
    return sequence_fields(serving.sequence_batching, given)
