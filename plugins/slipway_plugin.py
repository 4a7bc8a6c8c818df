"""Slipway as an Airflow plugin: when the scheduler starts, the pools that the DAGs name are there."""

from __future__ import annotations

import logging
import sys
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: Any) -> None:
    """Called by whatever starts: the scheduler and its like, which are jobs and have the database, and every task."""
    job = sys.modules.get("airflow.jobs.job")
    if job is None or not isinstance(component, job.Job):
        return
    # Airflow reads this file in every process: only here is more needed.
    from slipway.pools import make_missing_pools

    for name in make_missing_pools():
        log.info("made the pool %s", name)


class SlipwayPlugin(AirflowPlugin):
    """Found by Airflow in the plugins folder."""

    name = "slipway"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - as Airflow declares it
