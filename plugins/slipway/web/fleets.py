"""What the servers of a fleet serve, asked when it is asked for. Who may see a page may read this."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from airflow_provider_triton.client.event_loop import run
from slipway.dag_header import releases_dir
from slipway.fleet.context import FleetContext, fleets_dir, members_of
from slipway.fleet.status import parity_now
from slipway.web.sources import AWS_CONN_ID, Read

router = APIRouter(prefix="/api/fleets")


@router.get("/{fleet}")
def fleet_parity(sources: Read, fleet: str) -> dict[str, Any]:
    """Return version, configuration and manifest of each server, and where they differ."""
    parts = FleetContext(fleets_dir(), releases_dir(), fleet, sources.store.bucket, AWS_CONN_ID)
    parity = run(parity_now(parts, members_of(parts.file)))
    return {**parity.model_dump(mode="json"), "agree": parity.agree}
