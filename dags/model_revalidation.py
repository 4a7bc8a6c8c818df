"""
### Is what is live still what was released, and still good?

Runs each day for every model with a release file. It changes nothing that is live, unless the release file says
`revalidation.on_drift: roll_back`: then a difference starts `model_rollback` to the previous version, once.

| check | what is compared |
|---|---|
| live | the version that the cluster serves, with the version in the records |
| published | every byte in the bucket with the manifest, and the manifest with its signature |
| configuration | the configuration that the live servers report, with the manifest's canonical hash of config.pbtxt |
| signature | the inputs and outputs that the live server reports, with the manifest's |
| answers | the live version's answers to golden requests, with the labels and with its answers at the release |
| latency | the median latency of single golden requests, with that of the version's first check |
| inputs | users' requests with the golden set, if the release file says where they are recorded |

A model with a release under way is skipped. A difference opens a **finding**, which stays open until it is gone in a
later run or a person closes it (`finding_close`). Something unreadable counts as *could not check*, never as a pass,
and becomes a finding after some runs. The run fails while a finding is open or something could not be checked. The
task `show` has the page's address.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import dag

from slipway.dag_header import cron, header, model_or_all_param, releases_dir
from slipway.operators.revalidation.page import ShowRevalidationOperator
from slipway.operators.revalidation.revalidate import ListModelsOperator, RevalidateModelOperator
from slipway.operators.revalidation.way_back import NameRollbacksOperator
from slipway.workflows import MODEL_REVALIDATION, MODEL_ROLLBACK

PARAMS = {
    "model": model_or_all_param(),
}
AT_ONCE = 4
NAMES = "{{ ti.xcom_pull(task_ids='list_models') | tojson }}"
PLACES = {"releases_dir": str(releases_dir()), "bucket": "{{ var.value.slipway_bucket }}"}


@dag(
    dag_id=MODEL_REVALIDATION,
    dag_display_name="Model revalidation",
    description="Is what is live still what was released, and still good?",
    schedule=cron("SLIPWAY_REVALIDATION_CRON", "0 5 * * *"),
    params=PARAMS,
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=2,
        retry_delay=timedelta(seconds=30),
        retry_exponential_backoff=True,
        execution_timeout=timedelta(hours=2),
    ),
)
def model_revalidation() -> None:
    """List, look, go back where the release file says so, show."""
    models = ListModelsOperator(task_id="list_models", doc_md="Lists the models to check.", **PLACES)
    revalidate = RevalidateModelOperator.partial(
        task_id="revalidate",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="Checks one model: writes its report and page, and opens, keeps or closes findings.",
        **PLACES,
    ).expand(model=models.output)
    name_rollbacks = NameRollbacksOperator(
        task_id="name_rollbacks",
        models=NAMES,
        trigger_rule="all_done",
        doc_md="If the release file says `on_drift: roll_back`: lists the models to roll back, once for each finding.",
        **PLACES,
    )
    start_rollback = TriggerDagRunOperator.partial(
        task_id="start_rollback",
        trigger_dag_id=MODEL_ROLLBACK,
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_run_id }}",
        doc_md="Starts one `model_rollback` run for each; it checks again whether the previous version is good.",
    ).expand_kwargs(name_rollbacks.output)
    show = ShowRevalidationOperator(
        task_id="show",
        models=NAMES,
        trigger_rule="all_done",
        doc_md="Writes one page for the run; its address is in the log. Fails while a problem is open.",
        **PLACES,
    )
    revalidate >> name_rollbacks
    [revalidate, start_rollback] >> show


model_revalidation()
