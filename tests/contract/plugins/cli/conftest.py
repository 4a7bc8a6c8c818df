"""Airflow's API server with a filled bucket and the workflows, which these tests start runs of."""

from __future__ import annotations

import httpx
import pytest

from tests.support.waiting import wait_until
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.workflows import unpause_workflows, write_workflows


@pytest.fixture(scope="session")
def airflow(filled_site: AirflowSite) -> AirflowSite:
    """Airflow with the workflows in its database; nothing schedules their runs."""
    write_workflows(filled_site)
    unpause_workflows(filled_site)
    with filled_site.client("viewer") as client:
        # The server folds its documents from the records at the first questions.
        wait_until(lambda: _all_made(client), "the read model has every document, and warns of no workflow")
    return filled_site


def _all_made(client: httpx.Client) -> bool:
    answer = client.get("/api/models").raise_for_status().json()
    models = answer["models"]
    return bool(models) and all("reason" not in one for one in models) and not answer["warnings"]
