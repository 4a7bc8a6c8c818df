"""The release file's serving options as fields of Triton's ModelConfig, and how they are laid over a base.

Where there is a base, only what the release file says counts; a value that is written empties the field when
it is the zero of its kind, and `null` removes it. In the fields returned here `None` stands for that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from slipway_core.errors import ModelInvalidError
from slipway_core.spec.parts import SpecPart
from slipway_core.spec.serving.batching import (
    DynamicBatching,
    QueuePolicy,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from slipway_core.spec.serving.instances import (
    Accelerator,
    CudaGraph,
    CudaOptions,
    InstanceGroup,
    Optimization,
)

Config = dict[str, Any]
Part = TypeVar("Part", bound=SpecPart)

_KINDS = {"cpu": "KIND_CPU", "gpu": "KIND_GPU", "auto": "KIND_AUTO", "model": "KIND_MODEL"}
_CONTROLS = {
    "start": "CONTROL_SEQUENCE_START",
    "end": "CONTROL_SEQUENCE_END",
    "ready": "CONTROL_SEQUENCE_READY",
    "correlation_id": "CONTROL_SEQUENCE_CORRID",
}
_FLAGS: dict[str, tuple[str, list[Any]]] = {
    "INT32": ("int32_false_true", [0, 1]),
    "FP32": ("fp32_false_true", [0.0, 1.0]),
    "BOOL": ("bool_false_true", [False, True]),
}
_BATCHING = {
    "max_queue_delay_us": "max_queue_delay_microseconds",
    "preferred_batch_sizes": "preferred_batch_size",
    "preserve_ordering": "preserve_ordering",
    "priority_levels": "priority_levels",
    "default_priority_level": "default_priority_level",
}
_DIRECT = {
    "max_queue_delay_us": "max_queue_delay_microseconds",
    "minimum_slot_utilization": "minimum_slot_utilization",
}
_OLDEST = {
    "max_candidate_sequences": "max_candidate_sequences",
    "preferred_batch_sizes": "preferred_batch_size",
    "max_queue_delay_us": "max_queue_delay_microseconds",
    "preserve_ordering": "preserve_ordering",
}
_OPTIMIZATION = ("gather_kernel_buffer_threshold", "eager_batching")
_QUEUE = {
    "default_timeout_us": "default_timeout_microseconds",
    "allow_timeout_override": "allow_timeout_override",
    "max_queue_size": "max_queue_size",
}
_SEQUENCE = {"max_sequence_idle_us": "max_sequence_idle_microseconds", "iterative": "iterative_sequence"}
_CUDA = {
    "graphs": "graphs",
    "busy_wait_events": "busy_wait_events",
    "output_copy_stream": "output_copy_stream",
}


def laid_over(base: Mapping[str, Any], options: Mapping[str, Any]) -> Config:
    """Return `base` with `options` laid over it: messages merge, `None` removes, all else replaces."""
    result = copy.deepcopy(dict(base))
    for key, value in options.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = laid_over(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def data_type(datatype: str) -> str:
    """Return the ModelConfig's word for a datatype: `BYTES` is `TYPE_STRING` there."""
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def batching_fields(batching: DynamicBatching, *, whole: bool) -> Config:
    """Return `dynamic_batching`'s fields, with `whole` also the defaults that say something."""
    fields = _renamed(batching, _BATCHING, whole)
    given = batching.model_fields_set
    if "queue_policy" in given:
        fields["default_queue_policy"] = _queue_policy(batching.queue_policy, whole)
    if "priority_queue_policies" in given:
        policies = batching.priority_queue_policies
        fields["priority_queue_policy"] = policies and {
            level: _queue_policy(policy, whole) for level, policy in policies.items()
        }
    return fields


def sequence_fields(batching: SequenceBatching, base: Mapping[str, Any] | None) -> Config:
    """Return `sequence_batching`'s fields; `base` is the one of a base, None if there is no base at all.

    Where the release file names no strategy, that of `base` stays; the other one is removed.

    :raises ModelInvalidError: for an option of the other strategy.
    """
    whole = base is None
    strategy: Literal["direct", "oldest"] = batching.strategy or (
        "oldest" if "oldest" in (base or {}) else "direct"
    )
    _require_own(batching, strategy)
    fields = _renamed(batching, _SEQUENCE, whole)
    names, other = (_DIRECT, "oldest") if strategy == "direct" else (_OLDEST, "direct")
    fields[strategy] = _renamed(batching, names, whole)
    fields[other] = None
    if "controls" in batching.model_fields_set:
        fields["control_input"] = _listed(batching.controls, _control)
    if "states" in batching.model_fields_set:
        fields["state"] = _listed(batching.states, _state)
    return fields


def _require_own(batching: SequenceBatching, strategy: Literal["direct", "oldest"]) -> None:
    for name in batching.foreign_to(strategy):
        raise ModelInvalidError(
            f"`serving.sequence_batching.{name}` does not go with `strategy: {strategy}`",
            expected="the options of that strategy",
            found=name,
            remedy="Write the other `strategy`, or take the option out.",
        )


def instance_fields(group: InstanceGroup) -> Config:
    """Return one entry of `instance_group`."""
    fields: Config = {"kind": _KINDS[group.kind], "count": group.count}
    if group.gpus:
        fields["gpus"] = list(group.gpus)
    if group.profiles:
        fields["profile"] = [str(profile) for profile in group.profiles]
    if group.host_policy is not None:
        fields["host_policy"] = group.host_policy
    if group.passive:
        fields["passive"] = True
    if group.rate_limiter is not None:
        limiter: Config = {}
        if group.rate_limiter.resources:
            limiter["resources"] = [
                {"name": one.name, "count": one.count, **({"global": True} if one.shared else {})}
                for one in group.rate_limiter.resources
            ]
        if group.rate_limiter.priority:
            limiter["priority"] = group.rate_limiter.priority
        fields["rate_limiter"] = limiter
    return fields


def optimization_fields(optimization: Optimization, base: Mapping[str, Any]) -> Config:
    """Return `optimization`'s fields, those that the release file says; `base` is the one of a base, or empty."""
    given = optimization.model_fields_set
    fields = _renamed(optimization, {name: name for name in _OPTIMIZATION}, False)
    if "priority" in given:
        level = optimization.priority
        fields["priority"] = None if level is None else f"PRIORITY_{level.upper()}"
    if "graph_level" in given:
        fields["graph"] = None if optimization.graph_level is None else {"level": optimization.graph_level}
    if "cuda" in given:
        cuda = optimization.cuda
        fields["cuda"] = None if cuda is None else _cuda(cuda, whole=not base.get("cuda"))
    for side in ("input_pinned_memory", "output_pinned_memory"):
        if side in given:
            enable = getattr(optimization, side)
            fields[side] = None if enable is None else {"enable": enable}
    for kind in ("gpu", "cpu"):
        if f"{kind}_accelerators" in given:
            listed = _listed(getattr(optimization, f"{kind}_accelerators"), _accelerator)
            fields.setdefault("execution_accelerators", {})[f"{kind}_execution_accelerator"] = listed
    return fields


def parameter_fields(parameters: Mapping[str, str | None]) -> Config:
    """Return `parameters`' fields."""
    return {key: None if value is None else {"string_value": value} for key, value in parameters.items()}


def _renamed(part: SpecPart, names: Mapping[str, str], whole: bool) -> Config:
    """Return the fields that were given and, with `whole`, the defaults that say something."""
    return {
        ours: list(value) if isinstance(value, tuple) else value
        for theirs, ours in names.items()
        for value in [getattr(part, theirs)]
        if theirs in part.model_fields_set or (whole and value)
    }


def _listed(parts: Sequence[Part] | None, made: Callable[[Part], Config]) -> list[Config] | None:
    return None if parts is None else [made(part) for part in parts]


def _queue_policy(policy: QueuePolicy | None, whole: bool) -> Config | None:
    if policy is None:
        return None
    fields = _renamed(policy, _QUEUE, whole)
    if "timeout_action" in policy.model_fields_set:
        action = policy.timeout_action
        fields["timeout_action"] = None if action is None else action.upper()
    return fields


def _control(control: SequenceControl) -> Config:
    if control.kind == "correlation_id":
        said: Config = {"data_type": data_type(control.datatype)}
    else:
        name, values = _FLAGS[control.datatype]
        said = {name: list(values)}
    return {"name": control.input, "control": [{"kind": _CONTROLS[control.kind], **said}]}


def _state(state: SequenceState) -> Config:
    fields: Config = {
        "input_name": state.input,
        "output_name": state.output,
        "data_type": data_type(state.datatype),
        "dims": list(state.dims),
    }
    if state.zero_start:
        fields["initial_state"] = [
            {
                "name": f"zeros of {state.input}",
                "data_type": data_type(state.datatype),
                "dims": list(state.dims),
                "zero_data": True,
            }
        ]
    return fields


def _cuda(cuda: CudaOptions, *, whole: bool) -> Config:
    fields: Config = _renamed(cuda, _CUDA, whole)
    if "graph_sizes" in cuda.model_fields_set:
        fields["graph_spec"] = _listed(cuda.graph_sizes, _graph_spec)
    return fields


def _graph_spec(size: CudaGraph) -> Config:
    shapes = {name: {"dim": list(shape)} for name, shape in size.inputs.items()}
    return {"batch_size": size.batch_size, "input": shapes}


def _accelerator(one: Accelerator) -> Config:
    return {"name": one.name, **({"parameters": dict(one.parameters)} if one.parameters else {})}
