"""How each part is asked whether it answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.hooks.triton import TritonHook
from slipway.read_model.store_health import StoreHealth
from slipway.web.health.watch import Answer, Health, HealthWatch
from slipway.web.sources import kept_sources

STAGING, SCHEDULER = "staging Triton", "scheduler"
AIRFLOW = {
    SCHEDULER: "scheduler",
    "triggerer": "triggerer",
    "DAG processor": "dag_processor",
}
"""The components of Airflow: their usual names, and those in its health report."""
_DATABASE = "Airflow's database"
_STAGING_LIMIT_S = 3.0


def airflow_parts() -> Mapping[str, Answer]:
    """Return whether Airflow's own parts give their heartbeats, by its database."""
    from airflow.api.common.airflow_health import HEALTHY, get_airflow_health

    found = get_airflow_health()
    answers = {name: _heartbeat(found[key], key, HEALTHY) for name, key in AIRFLOW.items()}
    is_there = found["metadatabase"]["status"] == HEALTHY
    return {**answers, _DATABASE: Answer(datetime.now(UTC), "" if is_there else "cannot be read")}


def _heartbeat(found: Mapping[str, Any], key: str, healthy: str) -> Answer:
    beat = found.get(f"latest_{key}_heartbeat")
    at = None if beat is None else datetime.fromisoformat(str(beat)).astimezone(UTC)
    return Answer(at, "" if found["status"] == healthy else "does not answer")


def staging_part() -> Mapping[str, Answer]:
    """Return whether the staging server answers that it is ready."""
    from airflow.sdk.exceptions import AirflowNotFoundException

    name = TritonHook.default_conn_name
    try:
        hook = TritonHook(name, timeout_s=_STAGING_LIMIT_S)
        is_ready = hook.is_ready()
    except AirflowNotFoundException:
        return {STAGING: Answer(None, f"is unknown: there is no connection {name!r}")}
    return {STAGING: Answer(datetime.now(UTC), "" if is_ready else "reports that it is not ready")}


def _store() -> StoreHealth | None:
    kept = kept_sources()
    return None if kept is None else kept.read_model.health


_watch = HealthWatch({(*AIRFLOW, _DATABASE): airflow_parts, (STAGING,): staging_part}, _store)


def health_now() -> Health:
    """Return what the header shows; it waits for nothing."""
    return _watch.look()
