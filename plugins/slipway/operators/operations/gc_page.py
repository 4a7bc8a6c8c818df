"""The page of a run of `repository_gc`: what would go, before anybody agrees; what went, at the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slipway.airflow_run import triggered_by
from slipway.extra_links import REPORT_LINK, report_address
from slipway.failures import PlainFailure
from slipway.operators.operations.gc import GcOperator, read_plan
from slipway.release_record.shown import shown_content
from slipway_core.operations.gc_run import ModelResult, RunPlan
from slipway_core.operations.layout import gc_prefix, plan_key, result_key, run_plan_key
from slipway_core.operations.retention import ModelPlan
from slipway_core.record.shown import Shown
from slipway_core.reports.retention_page import render_retention_html, size_text
from slipway_core.written_numbers import counted

if TYPE_CHECKING:
    from airflow.sdk import Context

# Two pages: what a person has agreed to stays as it was shown.
PLAN_PAGE, RESULT_PAGE = "plan.html", "result.html"


class ShowRetentionPlanOperator(GcOperator):
    """Writes the plan of the whole run, and the page that shows it; the address is in the log.

    :param models: the names of the models, as JSON (templated).
    :returns: `plan_sha256`, by which the plan is agreed to and carried out, what would go, and `shown`: the addresses
        of page and plan, with their digests.
    """

    template_fields: Sequence[str] = ("bucket", "models")
    report = ("gc", PLAN_PAGE)
    operator_extra_links = REPORT_LINK

    def __init__(self, *, models: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.models = models

    def run(self, context: Context) -> dict[str, Any]:
        """Gather what the tasks that plan have written."""
        run_id = context["run_id"]
        models = json.loads(self.models)
        if models is None:
            raise PlainFailure("the task `list_models` has failed: nothing was checked")
        plans, digests, missing = [], {}, []
        for model in models:
            key = plan_key(run_id, model)
            content = self.store.read(key, most_bytes=ModelPlan.limit_bytes)
            if content is None:
                missing.append(model)
                continue
            plans.append(ModelPlan.from_bytes(content, self.store.uri(key)))
            digests[model] = hashlib.sha256(content).hexdigest()
        whole = RunPlan(
            run=run_id,
            started_by=triggered_by(context),
            dry_run=bool(context["params"]["dry_run"]),
            at=datetime.now(UTC),
            plans=digests,
            not_planned=tuple(missing),
        )
        document = whole.to_bytes()
        self.store.write(run_plan_key(run_id), document, content_type="application/json")
        page = write_page(self, whole, plans, {}, is_over=False)
        plan = shown_content(self.store.uri(run_plan_key(run_id)), document)
        going = [one for plan in plans for one in plan.with_action("delete")]
        size = size_text(sum(one.size_bytes for one in going))
        shown = report_address(self, run_id)
        self.log.info(
            "%s %s: %s; %s",
            counted(len(going), "version"),
            "would be deleted" if whole.dry_run else "to delete",
            size,
            shown,
        )
        return {
            "plan_sha256": plan.sha256,
            "versions": len(going),
            "size": size,
            "page": page.address,
            "shown": [one.model_dump() for one in (page, plan)],
        }


class ShowRetentionResultOperator(GcOperator):
    """Writes a second page, with what became of each version. It fails where something was not as it should be.

    :param plan_sha256: digest of the run's plan as it was shown (templated).
    """

    template_fields: Sequence[str] = ("bucket", "plan_sha256")
    report = ("gc", RESULT_PAGE)
    operator_extra_links = REPORT_LINK

    def __init__(self, *, plan_sha256: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_sha256 = plan_sha256

    def run(self, context: Context) -> str:
        """Gather what the tasks that delete have written; return the page's address.

        :raises PlainFailure: a model could not be looked at, or a version that goes was not deleted.
        """
        run_id = context["run_id"]
        key = run_plan_key(run_id)
        content = self.store.require(
            key, remedy="find out why the task `show_plan` failed", most_bytes=RunPlan.limit_bytes
        )
        whole = RunPlan.from_bytes(content, self.store.uri(key))
        plans = [read_plan(self.store, run_id, model, self.plan_sha256) for model in sorted(whole.plans)]
        results = {
            model: found for model in whole.plans if (found := self._result(run_id, model)) is not None
        }
        page = write_page(self, whole, plans, results, is_over=True).address
        shown = report_address(self, run_id)
        self.log.info("%s", shown)
        amiss = [f"{model}: not checked" for model in whole.not_planned]
        for plan in plans:
            if plan.unreadable:
                amiss.append(f"{plan.model}: {plan.unreadable}")
            elif plan.with_action("delete") and not whole.dry_run and plan.model not in results:
                amiss.append(f"{plan.model}: the deletion was not finished")
        if amiss:
            raise PlainFailure(f"{'; '.join(amiss)}.", page=shown)
        return page

    def _result(self, run_id: str, model: str) -> ModelResult | None:
        key = result_key(run_id, model)
        content = self.store.read(key, most_bytes=ModelResult.limit_bytes)
        return None if content is None else ModelResult.from_bytes(content, self.store.uri(key))


def write_page(
    task: GcOperator,
    whole: RunPlan,
    plans: Sequence[ModelPlan],
    results: Mapping[str, ModelResult],
    *,
    is_over: bool,
) -> Shown:
    """Write the run's page; return its address and its digest."""
    key = f"{gc_prefix(whole.run)}{RESULT_PAGE if is_over else PLAN_PAGE}"
    html = render_retention_html(whole, plans, results, is_over=is_over).encode()
    task.store.write(key, html, content_type="text/html; charset=utf-8")
    return shown_content(task.store.uri(key), html)
