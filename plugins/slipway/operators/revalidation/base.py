"""What the tasks of `model_revalidation` have in common."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.form import FormOperator
from slipway.release_context import make_store
from slipway_core.operations.layout import revalidation_report_key
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.operations.revalidation.report import ModelReport
from slipway_core.reports.revalidation_page import render_model_html
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

ANSWER_LIMIT_S = 20.0
"""How long the object store may take for an answer; it is asked twice."""


class RevalidationOperator(FormOperator):
    """What the tasks of `model_revalidation` share.

    :param kubernetes_conn_id: the cluster's connection.
    :param answer_limit_s: how long the object store may take for an answer.
    """

    def __init__(
        self,
        *,
        kubernetes_conn_id: str = "kubernetes_default",
        answer_limit_s: float = ANSWER_LIMIT_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.answer_limit_s = answer_limit_s

    def execute(self, context: Context) -> Any:
        """Run the task; what a person must change is not tried again."""
        with airflow_failures():
            return self.run(context)

    def run(self, context: Context) -> Any:
        """Do the task itself."""
        raise NotImplementedError

    def spec_of(self, model: str) -> ReleaseSpec:
        """Return the model's release file."""
        return load_model_spec(Path(self.releases_dir), model)

    def store_of(self, spec: ReleaseSpec) -> ModelStoreHook:
        """Return the bucket, encrypted as the model's release file says."""
        return make_store(self.bucket, spec, self.aws_conn_id, answer_limit_s=self.answer_limit_s)

    def store(self) -> ModelStoreHook:
        """Return the bucket, encrypted as the connection says."""
        return ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=self.answer_limit_s)


def write_model_page(store: ModelStoreHook, report: ModelReport, findings: Iterable[Finding]) -> str:
    """Write the page of one model; return its address."""
    key = f"{revalidation_report_key(report.run, report.model).removesuffix('.json')}.html"
    page = render_model_html(report, list(findings)).encode()
    store.write(key, page, content_type="text/html; charset=utf-8")
    return store.uri(key)
