"""Takes a model out of service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator

from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators.base import LINKS, defer_limit, result_of, within
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import seconds
from airflow_provider_triton.triggers.triton import TritonDrainTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class TritonDrainModelOperator(BaseOperator):
    """Unloads a model when nobody asks it any more, and waits until its last request has been answered.

    How that is known:

    1. Nobody asks any more when for `quiet_s` the statistics count no request that ended, and, where the connection
       has ``metrics_port``, the queue is empty. Until then the model is left in service.
    2. A request that an instance works on is in no number of Triton's. So the model is unloaded, which lets such
       requests finish, and the server's index is read until it shows the model ``UNAVAILABLE``: as long as one request
       is under way it shows ``UNLOADING``.

    So no request is cut short. One that comes after a pause of `quiet_s` is refused: send the users elsewhere first,
    and choose `quiet_s` longer than the pauses between their requests.

    :param model_name: the model (templated).
    :param quiet_s: for how long nobody may have asked (templated).
    :param unload_dependents: unload what an ensemble needs with it.
    :param triton_conn_id: the server (templated).
    :param timeout_s: limit for all of it (templated).
    :param deferrable: wait in the triggerer instead of in a worker.
    :returns: ``answered`` (requests while it was waited for), ``quiet_s`` and ``unload_s``.
    """

    template_fields: Sequence[str] = ("model_name", "quiet_s", "triton_conn_id", "timeout_s")
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_name: str,
        quiet_s: float | str = 5.0,
        unload_dependents: bool = False,
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 300.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.quiet_s = quiet_s
        self.unload_dependents = unload_dependents
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any]:
        """Drain, here or in the triggerer."""
        with airflow_failures():
            limit_s = seconds(self.timeout_s, "timeout_s")
            trigger = TritonDrainTrigger(
                self.triton_conn_id,
                self.model_name,
                seconds(self.quiet_s, "quiet_s"),
                limit_s,
                self.unload_dependents,
            )
            if self.deferrable:
                self.defer(trigger=trigger, method_name="execute_complete", timeout=defer_limit(limit_s))
            return self._logged(within(limit_s, trigger.wait()))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Go on when the trigger has fired."""
        with airflow_failures():
            return self._logged(result_of(event))

    def _logged(self, drained: dict[str, Any]) -> dict[str, Any]:
        self.log.info(
            "%s: unloaded after %s s without a request; its last requests took %s s",
            self.model_name,
            drained["quiet_s"],
            drained["unload_s"],
        )
        return drained
