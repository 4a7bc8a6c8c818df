"""What is wrong with the deployment, on the pages of a real API server and in what the command line reads."""

from __future__ import annotations

from functools import partial

import httpx

from tests.support.waiting import wait_until
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.fixtures import workflow_site as workflow_site
from tests.support.web.workflows import airflow_client, browser_client

HTML = {"accept": "text/html"}
WARNING = "The DAG model_release is paused in Airflow: no release starts or continues"


def said(client: httpx.Client) -> list[bool]:
    """Return whether the overview, the calendar and the JSON API warn."""
    pages = [client.get("/", headers=HTML).text, client.get("/calendar", headers=HTML).text]
    warnings = client.get("/api/models").json()["warnings"]
    return [WARNING in page for page in pages] + [any(one.startswith(WARNING) for one in warnings)]


def test_airflows_own_toggle_is_seen(workflow_site: AirflowSite) -> None:
    """A paused `model_release` is named on every page, and no longer once it is not paused."""
    with airflow_client(workflow_site, "admin") as airflow, browser_client(workflow_site, "admin") as client:
        for is_paused in (True, False):
            airflow.patch("/dags/model_release", json={"is_paused": is_paused}).raise_for_status()
            wait_until(partial(_all_say, client, is_paused), "pages know of the toggle", limit_s=60)


def _all_say(client: httpx.Client, is_paused: bool) -> bool:
    return said(client) == [is_paused] * 3
