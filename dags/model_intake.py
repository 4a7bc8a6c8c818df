"""
### A new version in S3 starts its release

Training writes `incoming/MODEL/VERSION/…` and, last, `ready.json`. The bucket tells a queue, the queue tells this
DAG, and this DAG starts `model_release` once: the run id is made of model, version and the digest of `ready.json`,
so an event that comes twice starts nothing twice.

An event is a hint. A run that events started looks at the models that they name. A run by the schedule, or by hand,
**sweeps** all of `incoming/` for versions that were never released, so that a lost event costs minutes and not a
release. A message that cannot be read makes its run sweep at once, and the pages say so. A version whose `ready.json`
says `"start": "by_hand"` waits for a person.

A version that failed or was cancelled before users met it, and whose `ready.json` is then **uploaded again**, starts
once more by itself. One that was promoted, rolled back or rejected does not, and neither does a version that is older
than one that was started. A release whose version a gate refused rejects it: `version_rejection` lifts that.

A model that was **rolled back** does not move forward automatically: a person starts the next version, unless the
release file says `rollout.after_rollback: continue`.

A release whose run Airflow no longer has (`airflow db clean` deletes runs under way, too) cannot end itself:
`end_lost_releases` completes its record and gives the model's lock back.

What is malformed, too large or at the wrong place is named in the log of `find_new_versions` and in its XCom
`set_aside`; it holds up no other version.
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
    description="A new version in S3 starts its release; a sweep finds what events lost.",
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
        # Airflow keeps with it what sweeps have learnt, so that they need not read it again.
        inlets=[incoming_versions],
        doc_md="Looks at the models that events named, or sweeps `incoming/`, and lists the versions to release. "
        "What cannot be used is named in the log and in the XCom `set_aside`, and harms no other version.",
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
        doc_md="One `model_release` run for each version; its id holds a digest of `ready.json`. Where the model's "
        "release file has not reached the worker, or Airflow has not read it yet, it is tried again.",
    ).expand_kwargs(find_new_versions.output)

    EndLostReleasesOperator(
        task_id="end_lost_releases",
        bucket="{{ var.value.slipway_bucket }}",
        releases_dir=str(releases_dir()),
        doc_md="Completes the record of each release whose run Airflow no longer has, such as after `airflow db "
        "clean`, and notifies people. The guard takes users off a canary that nobody watches any more.",
    )


model_intake()
