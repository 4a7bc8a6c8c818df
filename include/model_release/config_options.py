"""The release file's serving options as fields of Triton's ModelConfig, and how they are laid over a base.

Where there is a base, only what the release file says counts; a value that is written empties the field when
it is the zero of its kind, and `null` removes it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from include.model_release.spec_batching import (
    DynamicBatching,
    QueuePolicy,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from include.model_release.spec_instances import Accelerator, CudaOptions, InstanceGroup, Optimization
from include.model_release.spec_parts import SpecPart

Config = dict[str, Any]

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
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = laid_over(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def data_type(datatype: str) -> str:
    """Return the ModelConfig's word for a datatype: `BYTES` is `TYPE_STRING` there."""
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def batching_fields(batching: DynamicBatching, *, whole: bool) -> Config:
    """Return `dynamic_batching`'s fields; with `whole` the defaults too that say something."""
    fields = _renamed(batching, _BATCHING, whole)
    if batching.queue_policy is not None:
        fields["default_queue_policy"] = _queue_policy(batching.queue_policy, whole)
    if batching.priority_queue_policies:
        fields["priority_queue_policy"] = {
            level: _queue_policy(policy, whole) for level, policy in batching.priority_queue_policies.items()
        }
    return fields


def sequence_fields(batching: SequenceBatching, *, whole: bool) -> Config:
    """Return `sequence_batching`'s fields; the other strategy of a base is removed."""
    fields = _renamed(
        batching,
        {"max_sequence_idle_us": "max_sequence_idle_microseconds", "iterative": "iterative_sequence"},
        whole,
    )
    if whole or "strategy" in batching.model_fields_set:
        names, other = (_DIRECT, "oldest") if batching.strategy == "direct" else (_OLDEST, "direct")
        fields[batching.strategy] = _renamed(batching, names, whole)
        if not whole:
            fields[other] = None
    if batching.controls:
        fields["control_input"] = [_control(control) for control in batching.controls]
    if batching.states:
        fields["state"] = [_state(state) for state in batching.states]
    return fields


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


def optimization_fields(optimization: Optimization) -> Config:
    """Return `optimization`'s fields, those that the release file says."""
    fields: Config = {
        name: getattr(optimization, name) for name in _OPTIMIZATION if getattr(optimization, name) is not None
    }
    if optimization.priority is not None:
        fields["priority"] = f"PRIORITY_{optimization.priority.upper()}"
    if optimization.graph_level is not None:
        fields["graph"] = {"level": optimization.graph_level}
    if optimization.cuda is not None:
        fields["cuda"] = _cuda(optimization.cuda)
    for side in ("input_pinned_memory", "output_pinned_memory"):
        if getattr(optimization, side) is not None:
            fields[side] = {"enable": getattr(optimization, side)}
    accelerators = {
        "gpu_execution_accelerator": [_accelerator(one) for one in optimization.gpu_accelerators],
        "cpu_execution_accelerator": [_accelerator(one) for one in optimization.cpu_accelerators],
    }
    if any(accelerators.values()):
        fields["execution_accelerators"] = {name: list_ for name, list_ in accelerators.items() if list_}
    return fields


def _renamed(part: SpecPart, names: Mapping[str, str], whole: bool) -> Config:
    """The fields that were given and, with `whole`, the defaults that say something."""
    return {
        ours: list(value) if isinstance(value, tuple) else value
        for theirs, ours in names.items()
        for value in [getattr(part, theirs)]
        if theirs in part.model_fields_set or (whole and value)
    }


def _queue_policy(policy: QueuePolicy, whole: bool) -> Config:
    fields = _renamed(
        policy,
        {
            "default_timeout_us": "default_timeout_microseconds",
            "allow_timeout_override": "allow_timeout_override",
            "max_queue_size": "max_queue_size",
        },
        whole,
    )
    if "timeout_action" in policy.model_fields_set:
        fields["timeout_action"] = policy.timeout_action.upper()
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


def _cuda(cuda: CudaOptions) -> Config:
    fields: Config = _renamed(cuda, _CUDA, True)
    if cuda.graph_sizes:
        fields["graph_spec"] = [
            {
                "batch_size": size.batch_size,
                "input": {name: {"dim": list(shape)} for name, shape in size.inputs.items()},
            }
            for size in cuda.graph_sizes
        ]
    return fields


def _accelerator(one: Accelerator) -> Config:
    return {"name": one.name, **({"parameters": dict(one.parameters)} if one.parameters else {})}
