"""
### Brings a version to all servers of a fleet, or to none

The fleet's file names the servers: the pods behind a Service, or a list of connections. The version must be published,
and its record must show that it passed its gates and was not rejected.

| task | what it does |
|---|---|
| place | checks that users may get the version, and puts it into the fleet's model repository |
| release | loads it next to the served version, compares all servers' answers, then gives it to all users at once |
| settle | if `release` was interrupted: restores the previous state of every server |

The previous version is unloaded when its last request has been answered. Until all servers serve the version, any error
on any server rolls all of them back. A server that is lost after that fails the run, and the others keep the version.
To bring a server that was unavailable to the fleet's version, release that version again: the other servers are left
unchanged.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, dag

from slipway.dag_header import WAY_BACK, header, releases_dir, version_param
from slipway.fleet.context import fleets_dir
from slipway.operators.fleet.release import (
    PlaceFleetVersionOperator,
    ReleaseToFleetOperator,
    SettleFleetOperator,
)
from slipway.workflows import FLEET_RELEASE
from slipway_core.fleet.fleet_file import list_fleets

PARAMS = {
    "fleet": Param(
        type="string",
        minLength=1,
        examples=list_fleets(fleets_dir()),
        title="Fleet",
        description="One of the files in include/fleets/.",
    ),
    "version": version_param("The version for all servers."),
}
FIELDS = {"releases_dir": str(releases_dir()), "bucket": "{{ var.value.slipway_bucket }}"}


@dag(
    dag_id=FLEET_RELEASE,
    dag_display_name="Fleet: release a version",
    description="All servers of a fleet get a version together, or none does.",
    schedule=None,
    params=PARAMS,
    **header(
        __doc__,
        "fleet",
        retries=3,
        retry_delay=timedelta(seconds=10),
        execution_timeout=timedelta(hours=2),
    ),
)
def fleet_release() -> None:
    """Lay in place, release, settle."""
    place = PlaceFleetVersionOperator(
        task_id="place",
        doc_md="Checks that users may get the version, and puts it into the fleet's model repository.",
        **FIELDS,
    )
    release = ReleaseToFleetOperator(
        task_id="release",
        doc_md="Every server gets the version, or none does. A new run continues.",
        **FIELDS,
    )
    settle = SettleFleetOperator(
        task_id="settle",
        priority_weight=WAY_BACK,
        doc_md="Rolls all servers back if the release was interrupted.",
        **FIELDS,
    )
    # The run ends as `release` does. Were `settle` to count, a release that was taken back would be a green run: it
    # leaves nothing to settle.
    place >> release >> settle.as_teardown(setups=place)


fleet_release()
