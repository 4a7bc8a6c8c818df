"""
### Starts when another version of a model is live

A DAG of one's own that is scheduled on Slipway's assets: it starts when a version of `digits` is promoted, and when
users are taken back to the version before. `read_event` says which version they have now; put your own tasks behind it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import dag, task

from slipway.assets import live_asset, rolled_back_asset

LIVE, ROLLED_BACK = live_asset("digits"), rolled_back_asset("digits")


@dag(
    dag_id="when_digits_is_live",
    description="Starts when users of digits have another version.",
    schedule=LIVE | ROLLED_BACK,
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
    tags=["example", "assets"],
)
def when_digits_is_live() -> None:
    """Wire the tasks."""

    @task
    def read_event(triggering_asset_events: Any = None) -> dict[str, Any]:
        """Return the version that users have now, by the newest event: there may be several."""
        live = [(event.extra, "version") for event in triggering_asset_events.get(LIVE, ())]
        back = [(event.extra, "previous_version") for event in triggering_asset_events.get(ROLLED_BACK, ())]
        extra, served = max([*live, *back], key=lambda one: str(one[0]["at"]))
        return {"model": extra["model"], "version": extra[served], "release_id": extra["release_id"]}

    read_event()


when_digits_is_live()
