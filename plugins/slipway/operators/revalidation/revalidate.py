"""The tasks that look at what is live: which models, and one model from the cluster to its report and its findings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.extra_links import REPORT_LINK
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.base import RevalidationOperator, write_model_page
from slipway.operators.revalidation.finding_book import FindingBook
from slipway.operators.revalidation.live_look import Live, LiveLook
from slipway.read_model.keeper import keep_current
from slipway.release_context import make_outbox
from slipway_core.errors import SlipwayError
from slipway_core.identifiers import list_models
from slipway_core.operations.layout import revalidation_report_key
from slipway_core.operations.revalidation.findings import Finding, settled
from slipway_core.operations.revalidation.report import (
    CheckResult,
    ModelReport,
    Standing,
)
from slipway_core.operations.revalidation.way_back import drift_notice
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.run_overrides import REVALIDATION_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context


class ListModelsOperator(RevalidationOperator):
    """Lists the models to look at: the one that was asked for, else all that have a release file.

    A release file that cannot be read stops none of the others; its own task says what is wrong with it.

    :returns: their names, sorted.
    """

    def run(self, context: Context) -> list[str]:
        """Check what was asked for.

        :raises UserError: the model has no release file, or one that cannot be used.
        """
        params = context["params"]
        require_known(params, REVALIDATION_PARAMETERS)
        if params.get("model") is None:
            return list_models(Path(self.releases_dir))
        return [self.spec_of(str(params["model"])).model]


class RevalidateModelOperator(RevalidationOperator):
    """Looks at one model, writes its report and its page into the run's folder, and opens, keeps or closes findings.

    It changes nothing of what is live, and leaves a model alone while a release of it is under way. What could not be
    read is reported as that, and never as a pass.

    :param model: its name.
    :returns: the report's key.
    """

    report = ("revalidation", "models/MODEL.html")
    operator_extra_links = REPORT_LINK

    def __init__(self, *, model: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model

    def run(self, context: Context) -> str:
        """Look, settle the findings, write.

        :raises TransientError: the object store is away, so nothing can be written down.
        :raises UserError: the release file, or a finding that lies there, cannot be read.
        """
        spec = self.spec_of(self.model)
        store = self.store_of(spec)
        report = self._report(context, spec, store)
        findings = FindingBook(store, spec.model).change(
            lambda known: settled(known, report, unchecked_runs=spec.revalidation.unchecked_runs)
        )
        key = revalidation_report_key(report.run, spec.model)
        store.write(key, report.to_bytes(), content_type="application/json")
        page = write_model_page(store, report, findings.values())
        keep_current(store.with_answer_limit, spec.model)
        self._tell(report, findings)
        self._notify(context, spec, report, findings, page)
        return key

    def _report(self, context: Context, spec: ReleaseSpec, store: ModelStoreHook) -> ModelReport:
        def report(
            standing: Standing, why: str, live: Live | None = None, *checks: CheckResult
        ) -> ModelReport:
            return ModelReport(
                run=context["run_id"],
                model=spec.model,
                at=datetime.now(UTC),
                standing=standing,
                why=why,
                service=f"{spec.rollout.namespace}/{spec.rollout.inference_service}",
                version=None if live is None else live.version,
                checks=checks,
            )

        if not spec.revalidation.enabled:
            return report("not_enabled", "`revalidation.enabled` is false in the release file")
        look = LiveLook(store, spec, context, kubernetes_conn_id=self.kubernetes_conn_id)
        try:
            live = look.live()
            if live.standing != "checked":
                return report(live.standing, live.why)
            # Late: an HTTP client comes with the checks, and reading the DAG files needs none.
            from slipway.operators.revalidation.model_checks import ModelChecks

            made = ModelChecks(store, spec, look, live, run_id=context["run_id"])
            checks = list(made.results())
            after = look.live()
        except SlipwayError as error:
            return report("could_not_check", f"it is unknown what is live: {error}")
        if (after.standing, after.mark) != (live.standing, live.mark):
            why = f"it began to change during the checks, so their findings are omitted. {after.why}"
            return report("in_flight", why)
        return report("checked", "", live, *checks)

    def _notify(
        self,
        context: Context,
        spec: ReleaseSpec,
        report: ModelReport,
        findings: dict[str, Finding],
        page: str,
    ) -> None:
        """Tell people of each finding that this run has opened. It waits for no receiver, and meets no error."""
        outbox = make_outbox(self.bucket, spec, self.aws_conn_id)
        for finding in opened_by(findings.values(), report.run):
            outbox.tell(
                drift_notice(
                    finding,
                    on_drift=spec.revalidation.on_drift,
                    page=page,
                    run=report.run,
                    dag_id=context["dag"].dag_id,
                    at=report.at,
                )
            )

    def _tell(self, report: ModelReport, findings: dict[str, Finding]) -> None:
        self.log.info("%s: %s %s", report.model, report.standing, report.why)
        for one in report.checks:
            self.log.info("%s: %s: %s", one.check, one.outcome, one.summary)
        for finding in opened_by(findings.values(), report.run):
            self.log.warning("a new finding %s of %s: %s", finding.name, report.model, finding.summary)


def opened_by(findings: Iterable[Finding], run: str) -> list[Finding]:
    """Return the findings that a run has opened."""
    return [one for one in findings if one.is_open and one.opened_run == run]
