"""Triton Inference Server: model control, questions and inference, over HTTP or gRPC, blocking or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from airflow.sdk import BaseHook

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.caller import TritonCaller
from airflow_provider_triton.client.calls import Call, Value
from airflow_provider_triton.client.results import (
    IndexEntry,
    LogSettings,
    ModelMetadata,
    ModelStatistics,
    ServerMetadata,
    SharedMemoryRegion,
    TraceSettings,
)
from airflow_provider_triton.client.settings import TritonSettings, repository_path_of, settings_of
from airflow_provider_triton.client.tensors import Arrays
from airflow_provider_triton.errors import TritonError

T = TypeVar("T")

_TEST_LIMIT_S = 10.0


class TritonHook(BaseHook):
    """One Triton server.

    The Airflow connection of type ``triton`` says where it is and who asks (`airflow_provider_triton.provider_info`). A
    connection of another type with the same fields works as well. Without ``protocol`` control goes over HTTP and
    inference over gRPC.

    Every call has a time limit for all of it, and fails with an error of `airflow_provider_triton.errors` whose cause
    is the client's. Only questions are sent again where no answer came: an inference request may have an effect, and a
    load or an unload is repeated by who knows whether it is still wanted.

    :param triton_conn_id: the connection.
    :param timeout_s: limit of one control or inference request, instead of the connection's (600 s where it names
        none). A load answers only when it is done, so this must exceed the time the largest model takes. What asks the
        server for no work gets at most 60 s of it.
    """

    conn_name_attr = "triton_conn_id"
    default_conn_name = "triton_default"
    conn_type = "triton"
    hook_name = "Triton Inference Server"

    def __init__(self, triton_conn_id: str = default_conn_name, timeout_s: float | None = None) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self._timeout_s = timeout_s

    @cached_property
    def settings(self) -> TritonSettings:
        """Return what the connection says.

        :raises UserError: it cannot be used.
        """
        return settings_of(self.get_connection(self.triton_conn_id), self.triton_conn_id)

    @property
    def timeout_s(self) -> float:
        """Return the limit of one request."""
        return self.settings.timeout_s if self._timeout_s is None else self._timeout_s

    @property
    def http_address(self) -> str:
        """Return ``HOST:PORT`` of the HTTP endpoint."""
        return self.settings.http_address

    @property
    def grpc_address(self) -> str:
        """Return ``HOST:PORT`` of the gRPC endpoint."""
        return self.settings.grpc_address

    @property
    def address(self) -> str:
        """Return ``HOST:PORT`` of the endpoint that control uses."""
        return self.settings.address

    @cached_property
    def repository_path(self) -> str | None:
        """Return where the server sees its model repository as files, None where nobody says.

        :raises UserError: it is no absolute path.
        """
        return repository_path_of(self.get_connection(self.triton_conn_id), self.triton_conn_id)

    @cached_property
    def caller(self) -> TritonCaller:
        """What sends any call, also in an event loop."""
        return TritonCaller(self.settings, self._timeout_s)

    def ask(self, call: Call[T]) -> T:
        """Send a call of `airflow_provider_triton.client.calls` and wait for its typed result."""
        return self.caller.ask(call)

    async def ask_async(self, call: Call[T], limit_s: float | None = None) -> T:
        """Send a call as `ask` does, in an event loop: no thread waits for the answer.

        :param limit_s: instead of the hook's.
        """
        return await self.caller.ask_async(call, limit_s)

    # --- health and what the server says of itself ---

    def is_live(self) -> bool:
        """Return whether the server runs."""
        return self.ask(calls.live())

    def is_ready(self) -> bool:
        """Return whether the server takes requests."""
        return self.ask(calls.ready())

    def is_model_ready(self, model_name: str, version: int | None = None) -> bool:
        """Return whether a model answers requests; without a version, whether any version of it does."""
        return self.ask(calls.model_ready(model_name, version))

    def server_metadata(self) -> ServerMetadata:
        """Return which server this is."""
        return self.ask(calls.server_metadata())

    def index(self) -> tuple[IndexEntry, ...]:
        """Return the repository index: one entry a model version, without models loaded with files of the caller's."""
        return self.ask(calls.index())

    def ready_versions(self, model_name: str) -> frozenset[int]:
        """Return the versions of the model that are ready, from the repository index."""
        return versions_ready(self.index(), model_name)

    def metadata(self, model_name: str, version: int | None = None) -> ModelMetadata:
        """Return the model's inputs and outputs, and which versions are ready.

        :raises ModelNotLoadedError: the server does not have it ready.
        """
        return self.ask(calls.model_metadata(model_name, version))

    def config(self, model_name: str, version: int | None = None) -> dict[str, Any]:
        """Return the configuration the server uses for the version, in Triton's JSON form.

        :raises ModelNotLoadedError: the server does not have it ready.
        """
        return self.ask(calls.config(model_name, version))

    def statistics(self, model_name: str = "", version: int | None = None) -> tuple[ModelStatistics, ...]:
        """Return what one model, or each, has done since it was loaded.

        :raises ModelNotLoadedError: the server does not have it ready.
        """
        return self.ask(calls.statistics(model_name, version))

    # --- model control ---

    def load(
        self,
        model_name: str,
        config: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Load the model, with a full configuration, which is what pins its versions, or as the repository has it.

        :param files: instead of the repository's files: the content of each by its path in the model's folder. The
            configuration must be given too.
        :raises LoadRefusedError: the server has the request and will not load the model.
        :raises ServerUnavailableError: the server, or its model repository, is out of reach, or the time is up.
        """
        self.ask(calls.load(model_name, config, files))

    def unload(self, model_name: str, *, dependents: bool = False) -> None:
        """Ask the server to unload the model; one that is not loaded is no error.

        Triton answers at once and ends the model when its last request has been answered.

        :param dependents: unload the models that an ensemble needs, too.
        """
        self.ask(calls.unload(model_name, dependents=dependents))

    # --- settings and shared memory ---

    def trace_settings(self, model_name: str = "") -> TraceSettings:
        """Return what the server traces, of all models or of one."""
        return self.ask(calls.trace_settings(model_name))

    def set_trace_settings(self, settings: Mapping[str, Value], model_name: str = "") -> TraceSettings:
        """Change what the server traces; return what holds then.

        :param settings: by the server's own names (``trace_level``, ``trace_rate``, …); None sets one back.
        """
        return self.ask(calls.set_trace_settings(settings, model_name))

    def log_settings(self) -> LogSettings:
        """Return what the server writes to its log."""
        return self.ask(calls.log_settings())

    def set_log_settings(self, settings: Mapping[str, Value]) -> LogSettings:
        """Change what the server writes to its log, by its own names (``log_verbose_level``, …); return what holds."""
        return self.ask(calls.set_log_settings(settings))

    def system_shared_memory(self) -> tuple[SharedMemoryRegion, ...]:
        """Return the regions of system memory that clients have registered."""
        return self.ask(calls.system_shared_memory())

    def cuda_shared_memory(self) -> tuple[SharedMemoryRegion, ...]:
        """Return the regions of GPU memory that clients have registered."""
        return self.ask(calls.cuda_shared_memory())

    # --- inference ---

    def infer(
        self,
        model_name: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
    ) -> Arrays:
        """Send one request.

        :param version: None for the one that the server chooses.
        :param inputs: an array for each input tensor, batch dimension first.
        :param outputs: names of the output tensors wanted.
        :return: an array for each of those outputs.
        :raises ModelInvalidError: the server answered with an error about this request.
        :raises ModelNotLoadedError: the server does not have the model ready.
        """
        return self.caller.infer(model_name, version, inputs, outputs)

    def infer_stream(
        self,
        model_name: str,
        version: int,
        requests: Iterable[Mapping[str, np.ndarray]],
        outputs: Sequence[str],
        *,
        concurrency: int = 8,
    ) -> list[list[Arrays]]:
        """Send requests over one gRPC stream: a decoupled model answers nowhere else, other models answer there too.

        :param requests: for each request an array for each input tensor.
        :param concurrency: requests that are under way at the same time.
        :return: for each request its responses in the order of their arrival, with those of the outputs that each
            has; a response without any of them is left out.
        :raises ModelInvalidError: the server answered with an error.
        :raises TimedOutError: a request's last response did not come within ``timeout_s``.
        :raises UserError: the connection leads to the server over HTTP alone.
        """
        return self.caller.infer_stream(model_name, version, requests, outputs, concurrency=concurrency)

    # --- Airflow's button "Test" ---

    def test_connection(self) -> tuple[bool, str]:
        """Ask the server which it is, and whether it is ready, over each protocol that the connection uses."""
        try:
            limit_s = min(self.timeout_s, _TEST_LIMIT_S)
            server = self.caller.ask(calls.server_metadata(), limit_s)
            is_ready = self.caller.ask(calls.ready(), limit_s)
            self.caller.check_inference(limit_s)
        except TritonError as error:
            return False, str(error)
        state = "ready" if is_ready else "not ready"
        return True, f"{server.name} {server.version} at {self.address} answers and is {state}"


def versions_ready(index: Iterable[IndexEntry], model_name: str) -> frozenset[int]:
    """Return the versions of a model that an index shows ready."""
    return frozenset(
        entry.version
        for entry in index
        if entry.name == model_name and entry.is_ready and entry.version is not None
    )
