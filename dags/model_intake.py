"""
### A new version in S3 starts its release

Training writes `incoming/MODEL/VERSION/…` and, last, `ready.json`. The bucket sends an event to a queue, and this DAG
reads the queue and starts `model_release` once. The run ID contains the model, the version and the digest of
`ready.json`, so that a repeated event does not start a second run.

Events only save time. A run that events started checks the models that they name. A run by the schedule or by hand
**scans** all of `incoming/` for versions that were never released, so that a lost event delays a release by minutes and
does not lose it. If a message is unreadable, the run scans at once, and the pages say so. A version whose `ready.json`
says `"start": "by_hand"` waits for a person.

A version that failed or was canceled before users met it starts again automatically if its `ready.json` is **uploaded
again**. A version that was promoted, rolled back or rejected does not, and neither does one that is older than a
started version. If a gate refuses a version, its release rejects it; `version_rejection` lifts that.

A model that was **rolled back** does not continue automatically: a person starts the next version, unless the release
file says `rollout.after_rollback: continue`.

If a run is no longer in Airflow (`airflow db clean` also deletes runs that are under way), its release cannot end
itself: `end_lost_releases` completes its record and releases the model's lock.

Uploads that are malformed, too large or in the wrong place are named in the log of `find_new_versions` and in its XCom
`set_aside`. They do not delay any other version.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher, dag

from slipway.dag_header import cron, header, releases_dir
from slipway.deployment.settings import text_of
from slipway.operators.intake.find import FindNewVersionsOperator
from slipway.operators.intake.lost_releases import EndLostReleasesOperator
from slipway.operators.intake.start import StartReleaseOperator
from slipway.workflows import MODEL_INTAKE, MODEL_RELEASE

# The one declaration of this asset: a second one without the watcher would delete the watcher.
incoming_versions = Asset(
    "incoming_model_versions",
    watchers=[
        AssetWatcher(
            name="bucket_notifications",
            trigger=MessageQueueTrigger(
                scheme="sqs",
                sqs_queue=text_of("SLIPWAY_INTAKE_QUEUE_URL"),
                aws_conn_id="aws_default",
                max_messages=10,
                wait_time_seconds=5,
                waiter_delay=1,
            ),
        )
    ],
)


@dag(
    dag_id=MODEL_INTAKE,
    dag_display_name="Model intake",
    description="A new version in S3 starts its release; a scheduled scan finds versions whose events were lost.",
    schedule=AssetOrTimeSchedule(
        timetable=cron("SLIPWAY_SWEEP_CRON", "*/10 * * * *"),
        assets=[incoming_versions],
    ),
    **header(
        __doc__,
        "intake",
        retries=3,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        execution_timeout=timedelta(minutes=5),
    ),
)
def model_intake() -> None:
    """Find what is new, start a release for each."""
    find_new_versions = FindNewVersionsOperator(
        task_id="find_new_versions",
        bucket="{{ var.value.slipway_bucket }}",
        releases_dir=str(releases_dir()),
        # Airflow keeps with it what scans have learned, so that they need not read it again.
        inlets=[incoming_versions],
        doc_md="Checks the models that events named, or scans `incoming/`, and lists the versions to release. The "
        "log and the XCom `set_aside` name unusable uploads; they do not affect other versions.",
    )

    StartReleaseOperator.partial(
        task_id="start_release",
        trigger_dag_id=MODEL_RELEASE,
        releases_dir=str(releases_dir()),
        skip_when_already_exists=True,
        map_index_template="{{ task.trigger_run_id }}",
        # A release file may be written a moment before the version lands: it is waited for some six minutes.
        retries=12,
        retry_delay=timedelta(seconds=30),
        retry_exponential_backoff=False,
        doc_md="Starts one `model_release` run for each version; the run ID contains a digest of `ready.json`. "
        "Retried if the release file has not reached the worker or Airflow has not read it yet.",
    ).expand_kwargs(find_new_versions.output)

    EndLostReleasesOperator(
        task_id="end_lost_releases",
        bucket="{{ var.value.slipway_bucket }}",
        releases_dir=str(releases_dir()),
        doc_md="Completes the record of each release whose run Airflow no longer has, such as after `airflow db "
        "clean`, and notifies people. The guard takes users off a canary that nobody watches any more.",
    )


model_intake()
