"""What a Triton server says, typed; an answer is hostile until it has been parsed here.

HTTP and gRPC answer in two forms: protobuf's JSON has 64-bit numbers as text and leaves defaults out. Both are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

READY = "READY"


class Result(BaseModel):
    """A part of an answer; what it does not know is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ServerMetadata(Result):
    """Which server this is."""

    name: str = Field(min_length=1)
    version: str = ""
    extensions: tuple[str, ...] = ()


class IndexEntry(Result):
    """One model version of the repository index; of a model that was never loaded, the model alone.

    :param version: None where the server names no version.
    :param state: ``READY``, ``LOADING``, ``UNLOADING``, ``UNAVAILABLE``, or empty.
    """

    name: str
    version: int | None = None
    state: str = ""
    reason: str = ""

    @field_validator("version", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return None if value == "" else value

    @property
    def is_ready(self) -> bool:
        """Return whether this version answers requests."""
        return self.state == READY and self.version is not None


class TensorSpec(Result):
    """One input or output.

    :param datatype: in Triton's words, such as ``FP32``.
    :param shape: -1 where a size is open; the batch dimension first, where the model has one.
    """

    name: str = Field(min_length=1)
    datatype: str = Field(min_length=1)
    shape: tuple[Annotated[int, Field(ge=-1)], ...]

    def __str__(self) -> str:
        return f"{self.datatype}[{', '.join(map(str, self.shape))}]"


class ModelMetadata(Result):
    """One model: the versions that the server has ready, and its inputs and outputs by their names' order."""

    name: str
    platform: str = ""
    versions: tuple[int, ...] = ()
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()

    @field_validator("inputs", "outputs")
    @classmethod
    def _by_name(cls, value: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        found = {tensor.name: tensor for tensor in value}
        if len(found) != len(value):
            raise ValueError("two tensors have the same name")
        return tuple(found[name] for name in sorted(found))


class Duration(Result):
    """How often something happened, and for how long in all."""

    count: int = 0
    ns: int = 0


class InferenceDurations(Result):
    """Where requests spent their time."""

    success: Duration = Duration()
    fail: Duration = Duration()
    queue: Duration = Duration()
    compute_input: Duration = Duration()
    compute_infer: Duration = Duration()
    compute_output: Duration = Duration()
    cache_hit: Duration = Duration()
    cache_miss: Duration = Duration()


class ModelStatistics(Result):
    """What one version of a model has done since it was loaded.

    :param last_inference: when the last request was answered, in milliseconds since 1970; 0 where none was.
    """

    name: str
    version: int
    last_inference: int = 0
    inference_count: int = 0
    execution_count: int = 0
    inference_stats: InferenceDurations = InferenceDurations()

    @property
    def answered(self) -> int:
        """Return how many requests have been answered, errors included."""
        return self.inference_stats.success.count + self.inference_stats.fail.count


class TraceSettings(Result):
    """What the server traces, of all models or of one."""

    trace_level: tuple[str, ...] = ()
    trace_rate: int = 0
    trace_count: int = -1
    log_frequency: int = 0
    trace_file: str = ""
    trace_mode: str = ""


class LogSettings(Result):
    """What the server writes to its log."""

    log_file: str = ""
    log_info: bool = False
    log_warning: bool = False
    log_error: bool = False
    log_verbose_level: int = 0
    log_format: str = ""


class SharedMemoryRegion(Result):
    """One region of shared memory that a client has registered.

    :param key: of system memory, its name below ``/dev/shm``.
    :param device_id: of CUDA memory, the GPU.
    """

    name: str
    byte_size: int = 0
    key: str = ""
    offset: int = 0
    device_id: int | None = None


def index_of(document: Any) -> tuple[IndexEntry, ...]:
    """Return the entries of a repository index."""
    entries = document.get("models", []) if isinstance(document, Mapping) else document
    return tuple(IndexEntry.model_validate(entry) for entry in _list(entries))


def config_of(document: Any) -> dict[str, Any]:
    """Return a configuration in Triton's JSON form."""
    found = _mapping(document)
    nested = found.get("config")
    # gRPC's answer holds the configuration in a field of its own; a configuration has no field of that name.
    return dict(_mapping(nested)) if nested is not None else dict(found)


def statistics_of(document: Any) -> tuple[ModelStatistics, ...]:
    """Return the statistics, one for each version."""
    found = _list(_mapping(document).get("model_stats", []))
    return tuple(ModelStatistics.model_validate(one) for one in found)


def trace_settings_of(document: Any) -> TraceSettings:
    """Return trace settings."""
    found = _settings(document, lambda value: value.get("value", []))
    level = found.get("trace_level", ())
    single = {name: _single(value) for name, value in found.items() if name != "trace_level"}
    return TraceSettings.model_validate(
        {**{name: value for name, value in single.items() if value != ""}, "trace_level": _list(level or [])}
    )


def log_settings_of(document: Any) -> LogSettings:
    """Return log settings."""
    found = _settings(document, lambda value: next(iter(value.values()), None))
    return LogSettings.model_validate({name: value for name, value in found.items() if value is not None})


def regions_of(document: Any) -> tuple[SharedMemoryRegion, ...]:
    """Return the regions of shared memory."""
    found = document
    if isinstance(document, Mapping):
        found = list(_mapping(document.get("regions", {})).values())
    return tuple(SharedMemoryRegion.model_validate(one) for one in _list(found))


def _settings(document: Any, value_of: Any) -> dict[str, Any]:
    """Return settings by name: HTTP has them bare, gRPC below `settings`, each wrapped."""
    found = _mapping(document)
    nested = found.get("settings")
    if nested is None:
        return dict(found)
    return {name: value_of(_mapping(value)) for name, value in _mapping(nested).items()}


def _single(value: Any) -> Any:
    return (value[0] if value else "") if isinstance(value, list) else value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{type(value).__name__} where an object should be")
    return value


def _list(value: Any) -> Iterable[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} where a list should be")
    return value
