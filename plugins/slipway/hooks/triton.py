"""Triton servers as Slipway asks them: through the Airflow provider, and with Slipway's errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from airflow_provider_triton.client import calls, waits
from airflow_provider_triton.client.caller import TritonCaller as ProviderCaller
from airflow_provider_triton.client.calls import Call
from airflow_provider_triton.client.settings import TritonSettings
from airflow_provider_triton.client.tensors import Arrays
from airflow_provider_triton.hooks.triton import TritonHook as ProviderHook
from slipway.triton_errors import slipway_errors
from slipway_core.errors import ModelInvalidError
from slipway_core.tensors import ModelSignature, signature_from_metadata

T = TypeVar("T")

STAGING_CONN_ID = "triton_staging"


class TritonHook(ProviderHook):
    """One Triton server, by its Airflow connection. What goes wrong is an error of `slipway_core.errors`.

    :param triton_conn_id: the connection; the staging server's where none is named.
    :param timeout_s: limit of one request, instead of the connection's.
    """

    default_conn_name = STAGING_CONN_ID

    def __init__(self, triton_conn_id: str = STAGING_CONN_ID, timeout_s: float | None = None) -> None:
        super().__init__(triton_conn_id, timeout_s)

    @cached_property
    def settings(self) -> TritonSettings:
        """Return what the connection says.

        :raises UserError: it cannot be used.
        """
        with slipway_errors():
            return super().settings

    @cached_property
    def repository_path(self) -> str | None:
        """Return where the server sees its model repository as files, None where nobody says.

        :raises UserError: it is no absolute path.
        """
        with slipway_errors():
            return super().repository_path

    def ask(self, call: Call[T]) -> T:
        """Send a call of `airflow_provider_triton.client.calls` and wait for its typed result.

        :raises SlipwayError: which one, `airflow_provider_triton.client.failures` says.
        """
        with slipway_errors():
            return super().ask(call)

    async def ask_async(self, call: Call[T], limit_s: float | None = None) -> T:
        """Send a call as `ask` does, in an event loop."""
        with slipway_errors():
            return await super().ask_async(call, limit_s)

    def signature(self, model_name: str, version: int) -> ModelSignature:
        """Return the inputs and outputs of a version that is loaded.

        :raises ModelNotLoadedError: the server does not have it ready.
        """
        return self.ask(calls.model_metadata(model_name, version).read_by(_signature))

    def infer(
        self,
        model_name: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
    ) -> Arrays:
        """Send one request; parameters and errors as of the provider's hook."""
        with slipway_errors():
            return super().infer(model_name, version, inputs, outputs)

    def infer_stream(
        self,
        model_name: str,
        version: int,
        requests: Iterable[Mapping[str, np.ndarray]],
        outputs: Sequence[str],
        *,
        concurrency: int = 8,
    ) -> list[list[Arrays]]:
        """Send requests over one gRPC stream; parameters and errors as of the provider's hook."""
        with slipway_errors():
            return super().infer_stream(model_name, version, requests, outputs, concurrency=concurrency)


class TritonCaller:
    """Asks one Triton server in an event loop, where there is no connection; errors as of `TritonHook`.

    :param timeout_s: limit of one call, instead of the settings'.
    """

    def __init__(self, settings: TritonSettings, timeout_s: float | None = None) -> None:
        self._caller = ProviderCaller(settings, timeout_s)

    async def ask_async(self, call: Call[T], limit_s: float | None = None) -> T:
        """Send a call and return its typed result."""
        with slipway_errors():
            return await self._caller.ask_async(call, limit_s)

    async def infer_async(
        self, model_name: str, version: int, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> Arrays:
        """Send one request; return an array for each of the outputs."""
        with slipway_errors():
            return await self._caller.infer_async(model_name, version, inputs, outputs)

    async def wait_ready(
        self, model: str, versions: Sequence[int], limit_s: float, interval_s: float
    ) -> None:
        """Wait until all of these versions are ready.

        :raises TimedOutError: they are not within the limit.
        """
        with slipway_errors():
            await waits.wait_ready(self._caller, model, versions, limit_s, interval_s)

    async def drain(self, model: str, *, quiet_s: float, limit_s: float) -> None:
        """Unload a model without cutting a request short.

        :raises TimedOutError: users go on asking, and it is left in service; or its last request does not end.
        """
        with slipway_errors():
            await waits.drain(self._caller, model, quiet_s=quiet_s, limit_s=limit_s)


def _signature(document: Any) -> ModelSignature:
    try:
        return signature_from_metadata(document)
    except ModelInvalidError as error:
        raise ValueError(str(error)) from error
