"""
### Tells people what became of releases

Whoever has something to tell (a release that begins, waits, is held, refused, rolled back or promoted, a canary that
cannot be judged or lost its lease, drift that was found) puts one small object into the bucket's outbox, for the
receivers that the release file names under `notify`. This DAG sends it: Slack, Teams, e-mail, PagerDuty, a signed
webhook.

Nothing in a release waits for a receiver, and no receiver for another one. One that fails is tried again, later each
time, some nine hours in all. What could not be delivered then lies under `operations/notices/undelivered/` with the
reason, and the run that gave it up fails.

It runs when a notice is due, and never where no release file names a receiver.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, AssetWatcher, dag

from slipway.dag_header import header, releases_dir
from slipway.operators.operations.notices import DeliverNoticesOperator
from slipway.triggers.outbox import OutboxTrigger
from slipway.workflows import NOTIFICATION_DELIVERY

outbox = Asset(
    "notification_outbox",
    watchers=[AssetWatcher(name="outbox", trigger=OutboxTrigger(releases_dir=str(releases_dir())))],
)


@dag(
    dag_id=NOTIFICATION_DELIVERY,
    dag_display_name="Notifications: tell people",
    description="Sends the notices of releases to those whom the release files name.",
    schedule=[outbox],
    # Two at once would send the same notices. An event that is lost meanwhile comes again while the notice lies there.
    max_active_runs=1,
    **header(
        __doc__,
        "operations",
        retries=2,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(minutes=5),
    ),
)
def notification_delivery() -> None:
    """Deliver what is due."""
    DeliverNoticesOperator(
        task_id="deliver",
        bucket="{{ var.value.slipway_bucket }}",
        doc_md="Sends each notice that is due; fails where one was given up.",
    )


notification_delivery()
