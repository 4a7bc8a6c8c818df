"""Triton's ModelConfig as a table: which fields each message has and of what kind.

Protobuf is not known here, so the table is written out; a test holds it against the descriptors of
tritonclient's `model_config_pb2`. A field's kind is `text`, `bool`, `int`, `float`, `double`, `enum=ZERO` (with the
name of its zero value) or a message; `[]` marks a list, `{}` a map with keys of the user's own choosing, and
`?` a member of a oneof, whose mere presence says something.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ROOT = "ModelConfig"

_TABLE = """
ModelConfig
    name:text platform:text backend:text runtime:text version_policy:ModelVersionPolicy max_batch_size:int
    input:ModelInput[] output:ModelOutput[] batch_input:BatchInput[] batch_output:BatchOutput[]
    optimization:ModelOptimizationPolicy dynamic_batching:ModelDynamicBatching?
    sequence_batching:ModelSequenceBatching? ensemble_scheduling:ModelEnsembling?
    instance_group:ModelInstanceGroup[] default_model_filename:text cc_model_filenames:text{}
    metric_tags:text{} parameters:ModelParameter{} model_warmup:ModelWarmup[]
    model_operations:ModelOperations model_transaction_policy:ModelTransactionPolicy
    model_repository_agents:ModelRepositoryAgents response_cache:ModelResponseCache
    model_metrics:ModelMetrics
ModelVersionPolicy
    latest:ModelVersionPolicy.Latest? all:ModelVersionPolicy.All? specific:ModelVersionPolicy.Specific?
ModelVersionPolicy.Latest
    num_versions:int
ModelVersionPolicy.All
ModelVersionPolicy.Specific
    versions:int[]
ModelInput
    name:text data_type:enum=TYPE_INVALID format:enum=FORMAT_NONE dims:int[] reshape:ModelTensorReshape
    is_shape_tensor:bool allow_ragged_batch:bool optional:bool is_non_linear_format_io:bool
ModelTensorReshape
    shape:int[]
ModelOutput
    name:text data_type:enum=TYPE_INVALID dims:int[] reshape:ModelTensorReshape label_filename:text
    is_shape_tensor:bool is_non_linear_format_io:bool
BatchInput
    kind:enum=BATCH_ELEMENT_COUNT target_name:text[] data_type:enum=TYPE_INVALID source_input:text[]
BatchOutput
    target_name:text[] kind:enum=BATCH_SCATTER_WITH_INPUT_SHAPE source_input:text[]
ModelOptimizationPolicy
    graph:ModelOptimizationPolicy.Graph priority:enum=PRIORITY_DEFAULT cuda:ModelOptimizationPolicy.Cuda
    execution_accelerators:ModelOptimizationPolicy.ExecutionAccelerators
    input_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer
    output_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer gather_kernel_buffer_threshold:int
    eager_batching:bool
ModelOptimizationPolicy.Graph
    level:int
ModelOptimizationPolicy.Cuda
    graphs:bool busy_wait_events:bool graph_spec:ModelOptimizationPolicy.Cuda.GraphSpec[]
    output_copy_stream:bool
ModelOptimizationPolicy.Cuda.GraphSpec
    batch_size:int input:ModelOptimizationPolicy.Cuda.GraphSpec.Shape{}
    graph_lower_bound:ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound
ModelOptimizationPolicy.Cuda.GraphSpec.Shape
    dim:int[]
ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound
    batch_size:int input:ModelOptimizationPolicy.Cuda.GraphSpec.Shape{}
ModelOptimizationPolicy.ExecutionAccelerators
    gpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator[]
    cpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator[]
ModelOptimizationPolicy.ExecutionAccelerators.Accelerator
    name:text parameters:text{}
ModelOptimizationPolicy.PinnedMemoryBuffer
    enable:bool
ModelDynamicBatching
    preferred_batch_size:int[] max_queue_delay_microseconds:int preserve_ordering:bool priority_levels:int
    default_priority_level:int default_queue_policy:ModelQueuePolicy
    priority_queue_policy:ModelQueuePolicy{}
ModelQueuePolicy
    timeout_action:enum=REJECT default_timeout_microseconds:int allow_timeout_override:bool
    max_queue_size:int
ModelSequenceBatching
    direct:ModelSequenceBatching.StrategyDirect? oldest:ModelSequenceBatching.StrategyOldest?
    max_sequence_idle_microseconds:int control_input:ModelSequenceBatching.ControlInput[]
    state:ModelSequenceBatching.State[] iterative_sequence:bool
ModelSequenceBatching.StrategyDirect
    max_queue_delay_microseconds:int minimum_slot_utilization:float
ModelSequenceBatching.StrategyOldest
    max_candidate_sequences:int preferred_batch_size:int[] max_queue_delay_microseconds:int
    preserve_ordering:bool
ModelSequenceBatching.ControlInput
    name:text control:ModelSequenceBatching.Control[]
ModelSequenceBatching.Control
    kind:enum=CONTROL_SEQUENCE_START int32_false_true:int[] fp32_false_true:float[] bool_false_true:bool[]
    data_type:enum=TYPE_INVALID
ModelSequenceBatching.State
    input_name:text output_name:text data_type:enum=TYPE_INVALID dims:int[]
    initial_state:ModelSequenceBatching.InitialState[] use_same_buffer_for_input_output:bool
    use_growable_memory:bool
ModelSequenceBatching.InitialState
    data_type:enum=TYPE_INVALID dims:int[] zero_data:bool? data_file:text? name:text
ModelEnsembling
    step:ModelEnsembling.Step[] max_inflight_requests:int
ModelEnsembling.Step
    model_name:text model_version:int input_map:text{} output_map:text{} model_namespace:text
ModelInstanceGroup
    name:text kind:enum=KIND_AUTO count:int rate_limiter:ModelRateLimiter gpus:int[]
    secondary_devices:ModelInstanceGroup.SecondaryDevice[] profile:text[] passive:bool host_policy:text
ModelRateLimiter
    resources:ModelRateLimiter.Resource[] priority:int
ModelRateLimiter.Resource
    name:text global:bool count:int
ModelInstanceGroup.SecondaryDevice
    kind:enum=KIND_NVDLA device_id:int
ModelParameter
    string_value:text
ModelWarmup
    name:text batch_size:int inputs:ModelWarmup.Input{} count:int
ModelWarmup.Input
    data_type:enum=TYPE_INVALID dims:int[] zero_data:bool? random_data:bool? input_data_file:text?
ModelOperations
    op_library_filename:text[]
ModelTransactionPolicy
    decoupled:bool
ModelRepositoryAgents
    agents:ModelRepositoryAgents.Agent[]
ModelRepositoryAgents.Agent
    name:text parameters:text{}
ModelResponseCache
    enable:bool
ModelMetrics
    metric_control:ModelMetrics.MetricControl[]
ModelMetrics.MetricControl
    metric_identifier:ModelMetrics.MetricControl.MetricIdentifier
    histogram_options:ModelMetrics.MetricControl.HistogramOptions?
ModelMetrics.MetricControl.MetricIdentifier
    family:text
ModelMetrics.MetricControl.HistogramOptions
    buckets:double[]
"""

Form = Literal["one", "list", "map"]
# As protobuf writes 64 bits.
_WHOLE = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True)
class FieldKind:
    """What a field holds. `message` is empty for a scalar, `zero` is the value that equals leaving it out."""

    form: Form
    scalar: str
    message: str
    zero: Any
    in_oneof: bool


def _kind(text: str) -> FieldKind:
    form: Form = "list" if text.endswith("[]") else "map" if text.endswith("{}") else "one"
    in_oneof = text.endswith("?")
    name, _, zero_name = text.rstrip("[]{}?").partition("=")
    zeros: dict[str, Any] = {
        "text": "",
        "bool": False,
        "int": 0,
        "float": 0.0,
        "double": 0.0,
        "enum": zero_name,
    }
    message = "" if name in zeros else name
    return FieldKind(form, "" if message else name, message, zeros.get(name), in_oneof)


def _read(table: str) -> dict[str, dict[str, FieldKind]]:
    messages: dict[str, dict[str, FieldKind]] = {}
    fields: dict[str, FieldKind] = {}
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            fields = messages.setdefault(line, {})
            continue
        fields.update((name, _kind(kind)) for name, kind in (pair.split(":", 1) for pair in line.split()))
    return messages


MESSAGES: Mapping[str, Mapping[str, FieldKind]] = _read(_TABLE)


def with_numbers(config: Mapping[str, Any], message: str = ROOT) -> dict[str, Any]:
    """Return a copy of `config` with the 64-bit numbers that protobuf's JSON writes as text as numbers.

    A field that the table does not know is kept as it is.
    """
    fields = MESSAGES[message]
    return {
        str(name): _numbered(value, fields[name]) if name in fields else value
        for name, value in config.items()
    }


def _numbered(value: Any, kind: FieldKind) -> Any:
    if isinstance(value, Mapping) and kind.form == "map":
        return {str(key): _numbered_one(item, kind) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbered_one(item, kind) for item in value]
    return _numbered_one(value, kind)


def _numbered_one(value: Any, kind: FieldKind) -> Any:
    if kind.message and isinstance(value, Mapping):
        return with_numbers(value, kind.message)
    if kind.scalar == "int" and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return value
