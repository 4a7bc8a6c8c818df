"""
### Deletes the files of old versions

By each model's `retention` in its release file. A version keeps its files while anybody names it: an InferenceService
(as stable, as canary or in its notes), the staging server, a release that is under way, a record that is still open, a
pin. Kept as well are the newest promoted versions, and all for some days. What could not be read counts as in use: then
nothing of that model is deleted.

| what runs | what it does |
|---|---|
| list_models | the models to look at: those that were chosen, else all with a release file |
| plan | for each model: what is there, who names it, what goes and why |
| show_plan | one page: what goes, how many bytes, what stays and why; its address is in the log |
| approve | the first run in a bucket that deletes: another person than who started it agrees |
| delete | for each version: takes the model's lock, looks once more, deletes the manifest first, then the files |
| show_result | the page again, with what became of each version |

It is a **dry run** by default: nothing is deleted, and the page says what would be. Evidence and records are
never deleted. A run that was broken off is finished by the next one. To keep a version, pin it with `version_pin`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, dag

from slipway.dag_header import cron, header, releases_dir
from slipway.deployment.settings import is_true, text_of
from slipway.operators.operations.gc import (
    DeleteVersionsOperator,
    ListModelsOperator,
    PlanRetentionOperator,
)
from slipway.operators.operations.gc_approval import ApproveRetentionOperator
from slipway.operators.operations.gc_page import ShowRetentionPlanOperator, ShowRetentionResultOperator
from slipway.workflows import REPOSITORY_GC
from slipway_core.identifiers import list_models

PARAMS = {
    "models": Param(
        [],
        type="array",
        items={"type": "string"},
        examples=list_models(releases_dir()),
        title="Models",
        description="Empty: all that have a release file.",
    ),
    "dry_run": Param(
        is_true("SLIPWAY_GC_DRY_RUN", default=True),
        type="boolean",
        title="Dry run",
        description="Nothing is deleted; the page says what would go.",
    ),
}
AT_ONCE = 4
SHOWN = "ti.xcom_pull(task_ids='show_plan')"
STORE = {
    "releases_dir": str(releases_dir()),
    "bucket": "{{ var.value.slipway_bucket }}",
    "aws_conn_id": text_of("SLIPWAY_GC_AWS_CONN_ID") or "aws_default",
}


@dag(
    dag_id=REPOSITORY_GC,
    dag_display_name="Repository: delete old versions",
    description="Deletes the files of versions that are not in use and that the release file does not keep.",
    schedule=cron("SLIPWAY_GC_CRON", "0 3 * * 0"),
    params=PARAMS,
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=3,
        retry_delay=timedelta(seconds=30),
        retry_exponential_backoff=True,
        execution_timeout=timedelta(hours=2),
    ),
)
def repository_gc() -> None:
    """Plan, show, agree, delete, show."""
    models = ListModelsOperator(
        task_id="list_models",
        doc_md="Lists the models to look at.",
        **STORE,
    )
    plan = PlanRetentionOperator.partial(
        task_id="plan",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="What goes and what stays of one model, and why. Deletes nothing.",
        **STORE,
    ).expand(model=models.output)
    show_plan = ShowRetentionPlanOperator(
        task_id="show_plan",
        models="{{ ti.xcom_pull(task_ids='list_models') | tojson }}",
        trigger_rule="all_done",
        doc_md="One page for the run; its address is in the log.",
        **STORE,
    )
    approve = ApproveRetentionOperator(
        task_id="approve",
        bucket=STORE["bucket"],
        aws_conn_id=STORE["aws_conn_id"],
        shown=f"{{{{ {SHOWN} | tojson }}}}",
        doc_md="Before the first deletion in this bucket: another person agrees. Skips the rest in a dry run.",
    )
    delete = DeleteVersionsOperator.partial(
        task_id="delete",
        plan_sha256=f"{{{{ {SHOWN}['plan_sha256'] }}}}",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="Deletes what the plan of one model says, after a last look at each version.",
        **STORE,
    ).expand(model=models.output)
    show_result = ShowRetentionResultOperator(
        task_id="show_result",
        plan_sha256=f"{{{{ {SHOWN}['plan_sha256'] }}}}",
        trigger_rule="all_done",
        doc_md="The page again, with what became of each version; fails where something is amiss.",
        **STORE,
    )
    plan >> show_plan >> approve >> delete >> show_result


repository_gc()
