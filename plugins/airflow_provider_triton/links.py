"""The link from a task to the server that it works on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from airflow_provider_triton.hooks.triton import TritonHook

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class TritonServerLink(BaseOperatorLink):
    """Leads to the model's metadata on the server, or to the server's own; empty where it has no HTTP."""

    name = "Triton server"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the link; the worker asks for it when the task has ended."""
        try:
            settings = TritonHook(str(getattr(operator, "triton_conn_id", ""))).settings
        except (
            Exception
        ):  # no usable connection: the task reports that itself; a missing link must not fail a page
            return ""
        if settings.control != "http":
            return ""
        model = str(getattr(operator, "model_name", "") or "")
        return f"{settings.url}/v2" + (f"/models/{quote(model, safe='')}" if model else "")
