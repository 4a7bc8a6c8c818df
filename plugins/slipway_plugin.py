"""Slipway as an Airflow plugin: its pools, made when the scheduler starts, and its routes in the API server."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from slipway.web.run_requests.middleware import RunRequests

log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: Any) -> None:
    """Called by whatever starts: the scheduler and its like, which are jobs and have the database, and every task."""
    # Airflow reads this file in every process: only here is more needed.
    if type(component).__name__ == "TaskRunnerMarker":
        from slipway.failures import show_failures_as_blocks

        show_failures_as_blocks()
    job = sys.modules.get("airflow.jobs.job")
    if job is None or not isinstance(component, job.Job):
        return
    from slipway.pools import make_missing_pools

    for name in make_missing_pools():
        log.info("made the pool %s", name)


class Routes:
    """The project's routes, as an ASGI application; what they need is imported by the first request, in a thread."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if self._app is None:
            # It takes seconds, in which the API server serves others.
            self._app = await asyncio.to_thread(_make_app)
        # Acts are asked of Airflow's own API: the application that this one is mounted in.
        await self._app({**scope, "slipway.airflow_app": scope.get("app")}, receive, send)


def _make_app() -> Any:
    from slipway.web.app import make_app

    return make_app()


def _views() -> list[dict[str, Any]]:
    """Return what Airflow's pages lead to: the overview from the navigation, its release from the tab of a run."""
    # The pages are below the path of Airflow's own address, wherever that is.
    path = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    icon = {"icon": f"{path}/slipway/static/slipway.svg"}
    return [
        {"name": "Slipway", "href": f"{path}/slipway/", "destination": "nav", **icon},
        {
            "name": "Slipway",
            "href": f"{path}/slipway/runs/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "slipway-run",
            **icon,
        },
    ]


class SlipwayPlugin(AirflowPlugin):
    """Found by Airflow in the plugins folder."""

    name = "slipway"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - as Airflow declares it
    fastapi_root_middlewares = [  # noqa: RUF012
        {"middleware": RunRequests, "name": "slipway: names and notes of runs"}
    ]
    fastapi_apps = [{"app": Routes(), "name": "slipway", "url_prefix": "/slipway"}]  # noqa: RUF012
    external_views = _views()
