"""Asks a model until it is warm."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from airflow.sdk import BaseOperator

from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators.base import LINKS, within
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import parsed, seconds, version_or_none
from airflow_provider_triton.operators.tensors import arrays_of, zeros_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class TritonWarmUpOperator(BaseOperator):
    """Sends a model requests whose answers nobody needs, so that its users do not meet its first, slow ones.

    Triton's own ``model_warmup`` runs while a model loads; one that fails can end the server. These requests run after
    it, and one that fails fails the task alone. For a model that keeps no state; there they may be sent again.

    :param model_name: the model (templated).
    :param inputs: the request, as of `TritonInferOperator`; left out, zeros and empty strings, one row (templated).
    :param version: of the model; left out, the server chooses (templated).
    :param requests: how many requests each client sends, one after the other.
    :param clients: how many clients ask at the same time; at least as many as the model has instances, so that each
        of these is asked.
    :param triton_conn_id: the server (templated).
    :param timeout_s: limit for all requests together (templated).
    :returns: ``requests``, ``first_ms`` (the slowest of the clients' first), ``p50_ms`` and ``p99_ms`` of the others.
    """

    template_fields: Sequence[str] = ("model_name", "inputs", "version", "triton_conn_id", "timeout_s")
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_name: str,
        inputs: str | Mapping[str, Any] | None = None,
        version: int | str | None = None,
        requests: int = 20,
        clients: int = 1,
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if requests < 2 or clients < 1:
            raise ValueError("requests must be at least 2, and clients at least 1")
        self.model_name = model_name
        self.inputs = inputs
        self.version = version
        self.requests = requests
        self.clients = clients
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s

    def execute(self, context: Context) -> dict[str, float]:
        """Ask; return how long the answers took."""
        with airflow_failures():
            limit_s = seconds(self.timeout_s, "timeout_s")
            hook = TritonHook(self.triton_conn_id, limit_s)
            version = version_or_none(self.version)
            metadata = hook.metadata(self.model_name, version)
            given = parsed(self.inputs)
            arrays = (
                zeros_of(metadata, self.model_name)
                if given is None
                else arrays_of(given, metadata, self.model_name)
            )
            wanted = [tensor.name for tensor in metadata.outputs]
            latencies_ms = within(limit_s, self._ask(hook, version, arrays, wanted, limit_s))
        first = max(one[0] for one in latencies_ms)
        p50, p99 = np.percentile([ms for one in latencies_ms for ms in one[1:]], [50, 99])
        latencies = {
            "first_ms": round(first, 3),
            "p50_ms": round(float(p50), 3),
            "p99_ms": round(float(p99), 3),
        }
        self.log.info("%s: %s", self.model_name, latencies)
        return {"requests": self.requests * self.clients, **latencies}

    async def _ask(
        self,
        hook: TritonHook,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        limit_s: float,
    ) -> list[list[float]]:
        """Return the latencies of each client's requests."""
        requests = [inputs] * self.requests
        asking = (
            hook.caller.infer_each(self.model_name, version, requests, outputs, limit_s)
            for _ in range(self.clients)
        )
        return list(await asyncio.gather(*asking))
