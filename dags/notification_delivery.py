"""
### Sends people the notices of releases

Releases write notices when one starts, waits, is held, refused, rolled back or promoted, when a canary cannot be judged
or lost its lease, and when drift was found. A notice is a small object in the bucket's outbox, for the receivers that
the release file names under `notify`. This DAG sends it: to Slack, Teams, e-mail, PagerDuty, or a signed webhook.

No release waits for a receiver, and no receiver waits for another one. A failed delivery is retried at growing
intervals for about nine hours. After that, the notice is stored under `operations/notices/undelivered/` with the
reason, and the run that gave up fails.

The DAG runs when a notice is due, and never if no release file names a receiver.
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
    dag_display_name="Notifications: notify people",
    description="Sends the notices of releases to the receivers in the release files.",
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
        doc_md="Sends each notice that is due; fails if it gives one up.",
    )


notification_delivery()
