"""Unloads models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_triton.errors import TimedOutError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators.base import LINKS
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import names, seconds

if TYPE_CHECKING:
    from airflow.sdk import Context

_POLL_INTERVAL_S = 0.2


class TritonUnloadModelOperator(BaseOperator):
    """Unloads models and waits until none of their versions is ready any more.

    Made to be a teardown: a model that is not loaded is no error. Unloading an ensemble leaves its members
    loaded, unless `unload_dependents` is given, so each is named, the ensemble first. Requests that are under way are
    still answered; new ones are refused at once. `TritonDrainModelOperator` waits for both.

    :param model_names: the models' names in the order of their unloads; a list or JSON text (templated).
    :param unload_dependents: unload what an ensemble needs with it.
    :param triton_conn_id: the server (templated).
    :param timeout_s: limit for each model (templated).
    """

    template_fields: Sequence[str] = ("model_names", "triton_conn_id", "timeout_s")
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_names: str | Sequence[str],
        unload_dependents: bool = False,
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_names = model_names
        self.unload_dependents = unload_dependents
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s

    def execute(self, context: Context) -> None:
        """Unload each of the models."""
        with airflow_failures():
            limit_s = seconds(self.timeout_s, "timeout_s")
            hook = TritonHook(self.triton_conn_id, limit_s)
            known = {entry.name for entry in hook.index()}
            for name in names(self.model_names, "model_names"):
                # One that was loaded with files of the caller's is in no index.
                if name in known or hook.is_model_ready(name):
                    hook.unload(name, dependents=self.unload_dependents)
                    self._await_gone(hook, name, limit_s)

    def _await_gone(self, hook: TritonHook, name: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while (ready := hook.ready_versions(name)) or hook.is_model_ready(name):
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{name!r} is still served by Triton at {hook.address}",
                    expected=f"unloaded within {limit_s:g} s",
                    found=f"versions {sorted(ready)} ready",
                    remedy="check what else loads models on this server",
                )
            time.sleep(_POLL_INTERVAL_S)
