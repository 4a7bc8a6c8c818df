"""What can be asked of a Triton server, each call once: its request over HTTP, over gRPC, and how its answer is read.

`TritonHook.ask` sends a call and waits; `TritonHook.ask_async` does so in an event loop.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from airflow_provider_triton.client import results

T = TypeVar("T")
Other = TypeVar("Other")

Value = str | int | bool | list[str] | None


class Kind(Enum):
    """What a call is, which says how long it may take, what an error means, and whether it may be repeated."""

    HEALTH = "health"
    QUESTION = "question"
    CHANGE = "change"
    LOAD = "load"


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request.

    :param doing: what it does, behind "did not answer".
    :param path: of HTTP, quoted; ``body`` makes it a POST.
    :param rpc: the method of Triton's gRPC client, with its ``arguments``.
    :param parse: the typed result of an answer; it raises `ValueError` if the answer is invalid.
    :param model: the model that it is about, for errors; empty where it is about the server.
    """

    doing: str
    kind: Kind
    path: str
    rpc: str
    parse: Callable[[Any], T]
    body: dict[str, Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""

    @property
    def is_repeatable(self) -> bool:
        """Return whether it may be sent again when no answer came: a question changes nothing."""
        return self.kind is Kind.QUESTION

    def read_by(self, parse: Callable[[Any], Other]) -> Call[Other]:
        """Return the same request, whose answer is read by another function."""
        return replace(self, parse=parse)  # type: ignore[arg-type, return-value]


def live() -> Call[bool]:
    """Ask whether the server runs."""
    return Call("asking whether it lives", Kind.HEALTH, "v2/health/live", "is_server_live", bool)


def ready() -> Call[bool]:
    """Ask whether the server takes requests."""
    return Call("asking whether it is ready", Kind.HEALTH, "v2/health/ready", "is_server_ready", bool)


def model_ready(model: str, version: int | None = None) -> Call[bool]:
    """Ask whether a model answers requests; without a version, whether any version does."""
    return Call(
        f"asking whether {named(model, version)} is ready",
        Kind.HEALTH,
        f"{model_path(model, version)}/ready",
        "is_model_ready",
        bool,
        arguments=_model(model, version),
        model=model,
    )


def server_metadata() -> Call[results.ServerMetadata]:
    """Ask which server this is."""
    return Call(
        "reading its metadata",
        Kind.QUESTION,
        "v2",
        "get_server_metadata",
        results.ServerMetadata.model_validate,
    )


def index() -> Call[tuple[results.IndexEntry, ...]]:
    """Ask for the repository index."""
    return Call(
        "reading the repository index",
        Kind.QUESTION,
        "v2/repository/index",
        "get_model_repository_index",
        results.index_of,
        body={},
    )


def model_metadata(model: str, version: int | None = None) -> Call[results.ModelMetadata]:
    """Ask for a model's inputs and outputs."""
    return Call(
        f"reading the metadata of {named(model, version)}",
        Kind.QUESTION,
        model_path(model, version),
        "get_model_metadata",
        results.ModelMetadata.model_validate,
        arguments=_model(model, version),
        model=model,
    )


def config(model: str, version: int | None = None) -> Call[dict[str, Any]]:
    """Ask for the configuration that the server uses."""
    return Call(
        f"reading the configuration of {named(model, version)}",
        Kind.QUESTION,
        f"{model_path(model, version)}/config",
        "get_model_config",
        results.config_of,
        arguments=_model(model, version),
        model=model,
    )


def statistics(model: str = "", version: int | None = None) -> Call[tuple[results.ModelStatistics, ...]]:
    """Ask what one model, or each, has done since it was loaded."""
    path = f"{model_path(model, version)}/stats" if model else "v2/models/stats"
    return Call(
        f"reading the statistics of {named(model, version) if model else 'all models'}",
        Kind.QUESTION,
        path,
        "get_inference_statistics",
        results.statistics_of,
        arguments=_model(model, version),
        model=model,
    )


def load(
    model: str, configuration: Mapping[str, Any] | None = None, files: Mapping[str, bytes] | None = None
) -> Call[None]:
    """Ask for a load.

    :param configuration: the whole configuration instead of the repository's.
    :param files: the content of each file of the model's folder, by its path there, instead of the repository's; the
        configuration must be given too.
    """
    parameters: dict[str, Any] = {}
    arguments: dict[str, Any] = {"model_name": model}
    if configuration is not None:
        parameters["config"] = arguments["config"] = json.dumps(configuration)
    if files:
        named_files = {f"file:{path}": content for path, content in files.items()}
        parameters.update({path: base64.b64encode(one).decode() for path, one in named_files.items()})
        arguments["files"] = named_files
    path = f"v2/repository/models/{quote(model, safe='')}/load"
    body = {"parameters": parameters} if parameters else {}
    return Call(f"loading {model!r}", Kind.LOAD, path, "load_model", _nothing, body, arguments, model)


def unload(model: str, *, dependents: bool = False) -> Call[None]:
    """Ask for an unload.

    :param dependents: the models that an ensemble needs are unloaded with it.
    """
    return Call(
        f"unloading {model!r}",
        Kind.CHANGE,
        f"v2/repository/models/{quote(model, safe='')}/unload",
        "unload_model",
        _nothing,
        {"parameters": {"unload_dependents": dependents}},
        {"model_name": model, "unload_dependents": dependents},
        model,
    )


def trace_settings(model: str = "") -> Call[results.TraceSettings]:
    """Ask for the trace settings, of the server or of one model."""
    return Call(
        "reading the trace settings",
        Kind.QUESTION,
        _trace_path(model),
        "get_trace_settings",
        results.trace_settings_of,
        arguments={"model_name": model or None},
        model=model,
    )


def set_trace_settings(settings: Mapping[str, Value], model: str = "") -> Call[results.TraceSettings]:
    """Ask for other trace settings.

    :param settings: by the server's own names; None sets one back to its default.
    """
    texts = {name: _text(one) for name, one in settings.items()}
    return Call(
        "changing the trace settings",
        Kind.CHANGE,
        _trace_path(model),
        "update_trace_settings",
        results.trace_settings_of,
        texts,
        {"model_name": model or None, "settings": texts},
        model,
    )


def log_settings() -> Call[results.LogSettings]:
    """Ask for the log settings."""
    return Call(
        "reading the log settings", Kind.QUESTION, "v2/logging", "get_log_settings", results.log_settings_of
    )


def set_log_settings(settings: Mapping[str, Value]) -> Call[results.LogSettings]:
    """Ask for other log settings, by the server's own names."""
    return Call(
        "changing the log settings",
        Kind.CHANGE,
        "v2/logging",
        "update_log_settings",
        results.log_settings_of,
        dict(settings),
        {"settings": dict(settings)},
    )


def system_shared_memory() -> Call[tuple[results.SharedMemoryRegion, ...]]:
    """Ask for the regions of system memory that clients have registered."""
    return _shared_memory("system")


def cuda_shared_memory() -> Call[tuple[results.SharedMemoryRegion, ...]]:
    """Ask for the regions of GPU memory that clients have registered."""
    return _shared_memory("cuda")


def _shared_memory(kind: str) -> Call[tuple[results.SharedMemoryRegion, ...]]:
    return Call(
        f"reading the {kind} shared memory's status",
        Kind.QUESTION,
        f"v2/{kind}sharedmemory/status",
        f"get_{kind}_shared_memory_status",
        results.regions_of,
    )


def named(model: str, version: int | None) -> str:
    """Return a model, or one version of it, as messages name it."""
    return repr(model) if version is None else f"{model!r} version {version}"


def _nothing(_: Any) -> None:
    """Read an answer that says nothing."""


def _model(model: str, version: int | None) -> dict[str, str]:
    return {"model_name": model, "model_version": "" if version is None else str(version)}


def model_path(model: str, version: int | None) -> str:
    """Return the path of a model, or of one version of it, over HTTP."""
    path = f"v2/models/{quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{version}"


def _trace_path(model: str) -> str:
    return f"v2/models/{quote(model, safe='')}/trace/setting" if model else "v2/trace/setting"


def _text(value: Value) -> list[str] | str | None:
    """Return a trace setting as the server takes it: texts."""
    if value is None or isinstance(value, list):
        return value
    return str(value)
