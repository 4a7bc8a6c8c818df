"""Asks a model once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators.base import LINKS
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import names, parsed, seconds, version_or_none
from airflow_provider_triton.operators.tensors import arrays_of, lists_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class TritonInferOperator(BaseOperator):
    """Sends one inference request and returns the answer.

    The hook does not repeat it, for nobody but the DAG's author knows whether the model keeps a state. Airflow's
    retries do: set ``retries=0`` for a model whose answers depend on how often it was asked.

    :param model_name: the model (templated).
    :param inputs: nested lists by the input's name, the batch dimension first where the model has one; datatypes are
        the model's own. A mapping or JSON text (templated).
    :param outputs: names of the outputs wanted; without any, all. A list or JSON text (templated).
    :param version: of the model; left out, the server chooses (templated).
    :param triton_conn_id: the server (templated).
    :param timeout_s: limit of the request (templated).
    :returns: nested lists by the output's name, at most 10 000 values in all.
    """

    template_fields: Sequence[str] = (
        "model_name",
        "inputs",
        "outputs",
        "version",
        "triton_conn_id",
        "timeout_s",
    )
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_name: str,
        inputs: str | Mapping[str, Any],
        outputs: str | Sequence[str] = (),
        version: int | str | None = None,
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.inputs = inputs
        self.outputs = outputs
        self.version = version
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, and return the answer."""
        with airflow_failures():
            hook = TritonHook(self.triton_conn_id, seconds(self.timeout_s, "timeout_s"))
            version = version_or_none(self.version)
            metadata = hook.metadata(self.model_name, version)
            wanted = names(self.outputs, "outputs") or [tensor.name for tensor in metadata.outputs]
            arrays = arrays_of(parsed(self.inputs), metadata, self.model_name)
            return lists_of(hook.infer(self.model_name, version, arrays, wanted), self.model_name)
