"""The page of a run of `model_revalidation`, and the end of the run: red while something is amiss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slipway.airflow_run import triggered_by
from slipway.extra_links import REPORT_LINK, report_address
from slipway.failures import PlainFailure
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.base import RevalidationOperator, write_model_page
from slipway.operators.revalidation.finding_book import FindingBook
from slipway_core.operations.layout import revalidation_prefix, revalidation_report_key
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.operations.revalidation.report import ModelReport, RunReport
from slipway_core.reports.revalidation_page import render_run_html

if TYPE_CHECKING:
    from airflow.sdk import Context

PAGE, DOCUMENT = "page.html", "run.json"


class ShowRevalidationOperator(RevalidationOperator):
    """Writes the run's page, with a link to each model's; its address is in the log.

    It fails where a finding is open, or something could not be checked, so that the run does not look well.

    :param models: the names of the models, as JSON (templated).
    :returns: the page's address.
    """

    template_fields: Sequence[str] = ("bucket", "models")
    report = ("revalidation", PAGE)
    operator_extra_links = REPORT_LINK

    def __init__(self, *, models: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.models = models

    def run(self, context: Context) -> str:
        """Gather what the tasks that look have written.

        :raises PlainFailure: something is amiss with a model, or nobody could tell.
        """
        run_id, store = context["run_id"], self.store()
        models = json.loads(self.models)
        if models is None:
            raise PlainFailure("the task `list_models` has failed: nothing was checked")
        found = {model: self._report(store, run_id, model) for model in models}
        reports = [one for one in found.values() if one is not None]
        whole = RunReport(
            run=run_id,
            at=datetime.now(UTC),
            started_by=triggered_by(context),
            models=tuple(models),
            not_looked_at=tuple(model for model, one in found.items() if one is None),
        )
        open_findings: dict[str, list[Finding]] = {}
        for one in reports:
            findings = FindingBook(store, one.model).all().values()
            write_model_page(store, one, findings)  # a rollback may have been started for one since
            open_findings[one.model] = [finding for finding in findings if finding.is_open]
        page = self._write(store, whole, reports, open_findings)
        shown = report_address(self, run_id)
        self.log.info("%s", shown)
        amiss = list(_amiss(whole, reports, open_findings))
        if amiss:
            raise PlainFailure(f"{'; '.join(amiss)}.", page=shown)
        return page

    def _write(
        self,
        store: ModelStoreHook,
        whole: RunReport,
        reports: Sequence[ModelReport],
        open_findings: dict[str, list[Finding]],
    ) -> str:
        prefix = revalidation_prefix(whole.run)
        store.write(f"{prefix}{DOCUMENT}", whole.to_bytes(), content_type="application/json")
        page = render_run_html(whole, reports, open_findings).encode()
        store.write(f"{prefix}{PAGE}", page, content_type="text/html; charset=utf-8")
        return store.uri(f"{prefix}{PAGE}")

    def _report(self, store: ModelStoreHook, run_id: str, model: str) -> ModelReport | None:
        key = revalidation_report_key(run_id, model)
        content = store.read(key, most_bytes=ModelReport.limit_bytes)
        return None if content is None else ModelReport.from_bytes(content, store.uri(key))


def _amiss(
    whole: RunReport, reports: Sequence[ModelReport], open_findings: dict[str, list[Finding]]
) -> Sequence[str]:
    return [
        *(f"{model}: could not check, its task has failed" for model in whole.not_looked_at),
        *(f"{one.model}: could not check {reason}" for one in reports for reason in one.not_checked),
        *(f"{model}: {one.name}: {one.summary}" for model, found in open_findings.items() for one in found),
    ]
