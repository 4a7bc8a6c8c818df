"""
### A new version in S3 starts its release

Training writes `incoming/MODEL/VERSION/…` and, last, `ready.json`. The bucket tells a queue, the queue tells this
DAG, and this DAG starts `model_release` once for each version: the run id is made of model and version, so an
event that comes twice starts nothing twice.

An event is a hint. Every run, by event or by the schedule, also **sweeps** `incoming/` for versions that were
never released, so that a lost event costs minutes and not a release. A version whose `ready.json` says
`"start": "by_hand"` waits for a person.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable, dag
from slipway.operators.intake import FindNewVersionsOperator

# The one declaration of this asset: a second one without the watcher would delete the watcher.
incoming_versions = Asset(
    "incoming_model_versions",
    watchers=[
        AssetWatcher(
            name="bucket_notifications",
            trigger=MessageQueueTrigger(
                scheme="sqs",
                sqs_queue=os.environ.get("SLIPWAY_INTAKE_QUEUE_URL", ""),
                aws_conn_id="aws_default",
                max_messages=10,
                wait_time_seconds=5,
                waiter_delay=1,
            ),
        )
    ],
)


@dag(
    dag_id="model_intake",
    dag_display_name="Model intake",
    description="A new version in S3 starts its release; a sweep finds what events lost.",
    doc_md=__doc__,
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(os.environ.get("SLIPWAY_SWEEP_CRON", "*/10 * * * *"), timezone="UTC"),
        assets=[incoming_versions],
    ),
    catchup=False,
    tags=["slipway", "intake"],
    default_args={
        "owner": "slipway",
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "execution_timeout": timedelta(minutes=5),
    },
)
def model_intake() -> None:
    """Find what is new, start a release for each."""
    find_new_versions = FindNewVersionsOperator(
        task_id="find_new_versions",
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Reads the events that started this run, sweeps `incoming/`, and lists the versions to release. "
        "A malformed event, or one that is not about a model, is named in the log and harms no other.",
    )

    TriggerDagRunOperator.partial(
        task_id="start_release",
        trigger_dag_id="model_release",
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_run_id }}",
        doc_md="One `model_release` run for each version, under a run id made of model and version.",
    ).expand_kwargs(find_new_versions.output)


model_intake()
