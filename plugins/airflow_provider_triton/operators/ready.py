"""Waits for a server or a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator

from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators.base import LINKS, defer_limit, result_of, within
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import seconds, whole_numbers
from airflow_provider_triton.triggers.triton import TritonReadyTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class TritonWaitReadyOperator(BaseOperator):
    """Waits until a Triton server, or a model on it, is ready; it changes nothing.

    A server that is away is waited for as well. A server with strict readiness is not ready after a failed load.

    :param model_name: empty for the server itself (templated).
    :param versions: all of these; without any, one version of the model is enough. A list or JSON text (templated).
    :param triton_conn_id: the server (templated).
    :param timeout_s: limit of the wait (templated).
    :param poll_interval_s: seconds from one question to the next.
    :param deferrable: wait in the triggerer instead of in a worker.
    :returns: the versions of the model that are ready.
    """

    template_fields: Sequence[str] = ("model_name", "versions", "triton_conn_id", "timeout_s")
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_name: str = "",
        versions: str | Sequence[int] = (),
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 600.0,
        poll_interval_s: float = 1.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.versions = versions
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s
        self.poll_interval_s = poll_interval_s
        self.deferrable = deferrable

    def execute(self, context: Context) -> list[int]:
        """Wait, here or in the triggerer."""
        with airflow_failures():
            limit_s = seconds(self.timeout_s, "timeout_s")
            trigger = TritonReadyTrigger(
                self.triton_conn_id,
                self.model_name,
                whole_numbers(self.versions, "versions"),
                limit_s,
                self.poll_interval_s,
            )
            if self.deferrable:
                self.defer(trigger=trigger, method_name="execute_complete", timeout=defer_limit(limit_s))
            return within(limit_s, trigger.wait())

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[int]:
        """Go on when the trigger has fired."""
        with airflow_failures():
            return [int(version) for version in result_of(event)]
