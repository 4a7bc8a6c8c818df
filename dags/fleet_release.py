"""
### Brings a version to all servers of a fleet, or to none

The servers are those that the fleet's file names: the pods behind a Service, or a list of connections. The version must
be published, and its record must show that it has passed its gates and was not rejected.

| what runs | what it does |
|---|---|
| place | asks whether users may get the version, and lays it in the fleet's model repository |
| release | loads it beside what is served, compares all servers, asks each the same; then all users get it at once |
| settle | where `release` was ended in the middle: leads every server back to what it had |

The version before is unloaded when its last request has been answered. Anything wrong on any server leads all back,
until all serve the version: a server that is lost after that fails the run, and the others keep the version. To bring a
server that was away to the fleet's version, release that version again: the others are left as they are.
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
    description="Every server of a fleet takes a version together, or none does.",
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
        doc_md="Asks whether users may get the version, and lays it in the fleet's model repository.",
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
        doc_md="Rolls all servers back if the release ended midway.",
        **FIELDS,
    )
    # The run ends as `release` does. Were `settle` to count, a release that was taken back would be a green run: it
    # leaves nothing to settle.
    place >> release >> settle.as_teardown(setups=place)


fleet_release()
