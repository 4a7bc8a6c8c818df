"""
### Do the servers of each fleet serve the same?

Asks every server of every fleet what it serves: version, configuration, and the manifest that it was told to serve. The
run fails where they differ from each other or from what was last released, where a server does not answer, and where
one has another version loaded besides. What was told within a day fails no other run: its task is skipped as long as
nothing new is found.

A server that hung while a release gave users a version may do late what it was asked for. That release has ended by
then, and has left open in the bucket what the server is to serve: this run leads it back. Nothing else is changed. A
fleet with a release under way is left alone.

Without a fleet's file it has no schedule.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from slipway.dag_header import WAY_BACK, cron, header, releases_dir
from slipway.fleet.context import may_have_fleets
from slipway.operators.fleet.watch import ListFleetsOperator, WatchFleetOperator
from slipway.workflows import FLEET_WATCH

AT_ONCE = 4


@dag(
    dag_id=FLEET_WATCH,
    dag_display_name="Fleet: watch",
    description="Do the servers of each fleet serve the same? A release that was to be rolled back is rolled back.",
    schedule=cron("SLIPWAY_FLEET_WATCH_CRON", "*/5 * * * *") if may_have_fleets() else None,
    max_active_runs=1,
    **header(
        __doc__,
        "fleet",
        retries=1,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(minutes=30),
    ),
)
def fleet_watch() -> None:
    """List the fleets, look at each."""
    fleets = ListFleetsOperator(task_id="list_fleets", doc_md="Lists the fleets that have a file.")
    WatchFleetOperator.partial(
        task_id="watch",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        max_active_tis_per_dagrun=AT_ONCE,
        priority_weight=WAY_BACK,
        map_index_template="{{ task.fleet }}",
        doc_md="Rolls back what an ended release left open; fails if it finds something new.",
    ).expand(fleet=fleets.output)


fleet_watch()
