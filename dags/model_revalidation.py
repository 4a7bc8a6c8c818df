"""
### Is what is live still what was released, and still good?

Each day, for every model with a release file. Nothing of what is live is changed, unless its release file says
`revalidation.on_drift: roll_back`: then what differs starts `model_rollback` to the version before, once.

| check | what is compared |
|---|---|
| live | which version the cluster serves, and which one the records name |
| published | every byte in the bucket with the manifest, and the manifest with its signature |
| configuration | what the live servers report with the manifest's canonical hash of config.pbtxt |
| signature | the inputs and outputs that the live server tells with the manifest's |
| answers | golden requests to the live version: with the labels, and with its answers when it was released |
| latency | the median of single golden requests with that of the version's first look |
| inputs | requests of users with the golden set, where the release file says where they are recorded |

A model with a release under way is left alone. What differs opens a **finding**, which stays open until a run finds it
gone or a person closes it (`finding_close`). What cannot be read is *could not check*, never a pass, and after some
runs a finding too. The run fails while a finding is open or something could not be checked; the task `show` names the
page.
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
    models = ListModelsOperator(task_id="list_models", doc_md="Lists the models to look at.", **PLACES)
    revalidate = RevalidateModelOperator.partial(
        task_id="revalidate",
        max_active_tis_per_dagrun=AT_ONCE,
        map_index_template="{{ task.model }}",
        doc_md="Looks at one model; writes its report and its page, and opens, keeps or closes findings.",
        **PLACES,
    ).expand(model=models.output)
    name_rollbacks = NameRollbacksOperator(
        task_id="name_rollbacks",
        models=NAMES,
        trigger_rule="all_done",
        doc_md="Where the release file says `on_drift: roll_back`: lists what is to go back, once for each finding.",
        **PLACES,
    )
    start_rollback = TriggerDagRunOperator.partial(
        task_id="start_rollback",
        trigger_dag_id=MODEL_ROLLBACK,
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_run_id }}",
        doc_md="One `model_rollback` run for each; it asks again whether the version before is good.",
    ).expand_kwargs(name_rollbacks.output)
    show = ShowRevalidationOperator(
        task_id="show",
        models=NAMES,
        trigger_rule="all_done",
        doc_md="One page for the run; its address is in the log. Fails while something is amiss.",
        **PLACES,
    )
    revalidate >> name_rollbacks
    [revalidate, start_rollback] >> show


model_revalidation()
