"""
### Deletes the files of old versions

Deletes by each model's `retention` in its release file. A version keeps its files while anything uses it: an
InferenceService (as stable, as canary or in its notes), the staging server, a release that is under way, a record that
is still open, or a pin. The newest promoted versions are kept as well, and all versions for some days. Anything that
could not be read counts as in use: then nothing of that model is deleted.

| task | what it does |
|---|---|
| list_models | lists the models to check: the chosen ones, or all with a release file |
| plan | finds for each model what it has, what uses it, what would be deleted, and why |
| show_plan | writes one page: what would be deleted and its size, what is kept, and why; its address is in the log |
| approve | for the first deletion in a bucket: another person than the one who started it must approve |
| delete | for each version: takes the model's lock, checks once more, deletes the manifest first, then the files |
| show_result | writes the page again, with the result for each version |

It is a **dry run** by default: it deletes nothing, and the page says what it would delete. It never deletes evidence
and records. The next run finishes a run that was interrupted. To keep a version, pin it with `version_pin`.
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
        description="Empty: all models with a release file.",
    ),
    "dry_run": Param(
        is_true("SLIPWAY_GC_DRY_RUN", default=True),
        type="boolean",
        title="Dry run",
        description="Nothing is deleted; the page says what would be.",
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
        doc_md="Lists the models to check.",
        **STORE,
    )
    plan = PlanRetentionOperator.partial(
        task_id="plan",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="Plans what to delete and what to keep of one model, and why. Deletes nothing.",
        **STORE,
    ).expand(model=models.output)
    show_plan = ShowRetentionPlanOperator(
        task_id="show_plan",
        models="{{ ti.xcom_pull(task_ids='list_models') | tojson }}",
        trigger_rule="all_done",
        doc_md="Writes one page for the run; its address is in the log.",
        **STORE,
    )
    approve = ApproveRetentionOperator(
        task_id="approve",
        bucket=STORE["bucket"],
        aws_conn_id=STORE["aws_conn_id"],
        shown=f"{{{{ {SHOWN} | tojson }}}}",
        doc_md="Before the first deletion in this bucket, another person must approve. Skips the rest in a dry run.",
    )
    delete = DeleteVersionsOperator.partial(
        task_id="delete",
        plan_sha256=f"{{{{ {SHOWN}['plan_sha256'] }}}}",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="Deletes what the plan of one model says, after a last check of each version.",
        **STORE,
    ).expand(model=models.output)
    show_result = ShowRetentionResultOperator(
        task_id="show_result",
        plan_sha256=f"{{{{ {SHOWN}['plan_sha256'] }}}}",
        trigger_rule="all_done",
        doc_md="Writes the page again, with the result for each version; fails if there is a problem.",
        **STORE,
    )
    plan >> show_plan >> approve >> delete >> show_result


repository_gc()
