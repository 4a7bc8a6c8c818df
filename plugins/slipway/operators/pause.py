"""A canary that stays where it is until a person has looked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from include.model_release.spec import load_model_spec
from slipway.failures import airflow_failures
from slipway.hooks.lease import LeaseHook

if TYPE_CHECKING:
    from airflow.sdk import Context


class PauseCanaryOperator(BaseOperator):
    """Keeps a canary at its weight, or lets it go on; the judge watches all the while and may still fail it.

    What is asked for comes from the run's Params: ``model``, ``action`` (``pause`` or ``resume``) and ``reason``.

    :param releases_dir: the folder with the release files.
    """

    def __init__(
        self, *, releases_dir: str, kubernetes_conn_id: str = "kubernetes_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.kubernetes_conn_id = kubernetes_conn_id

    def execute(self, context: Context) -> None:
        """Notes it on the canary's lease, where the watch finds it within a third of the lease's duration."""
        params = context["params"]
        with airflow_failures():
            rollout = load_model_spec(Path(self.releases_dir), str(params["model"])).rollout
            hook = LeaseHook(rollout.inference_service, rollout.namespace, self.kubernetes_conn_id)
            lease = hook.pause(str(params["reason"]) if params["action"] == "pause" else None)
        self.log.info("%s: %s", lease.holder, f"paused, {lease.paused}" if lease.paused else "goes on")
