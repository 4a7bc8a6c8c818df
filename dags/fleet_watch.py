"""
### Do all servers of each fleet serve the same?

Reads from every server of every fleet what it serves: the version, the configuration, and the manifest that it was
given. The run fails if servers differ from each other or from the last release, if a server does not answer, or if one
has another version loaded. A difference that was reported within the last day does not fail another run: the task is
skipped until it finds something new.

A server that hung during a release may carry out an old request late, after users were given a version. That release
has ended, and has left in the bucket what the server should serve: this run rolls the server back to it. It changes
nothing else, and it skips a fleet whose release is under way.

Without a fleet's file, the DAG has no schedule.
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
    description="Do all servers of each fleet serve the same? Rolls back what an ended release left open.",
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
