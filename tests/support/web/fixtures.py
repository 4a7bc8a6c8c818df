"""Fixtures for tests of the dashboard; a `conftest.py` imports those that it wants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import httpx
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.store.connections import make_bucket, own_connection
from tests.support.store.moto_server import moto_server
from tests.support.web.airflow_site import AirflowSite, airflow_site

# The servers of one process share their buckets.
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowSite]:
    """Airflow's API server with the dashboard; its bucket is empty when it starts, and all tests share it."""
    with moto_server() as endpoint:
        bucket = make_bucket(endpoint, f"slipway-dashboard-{next(_numbers)}")
        with airflow_site(tmp_path_factory.mktemp("airflow-site"), endpoint, bucket) as running:
            yield running


@pytest.fixture(scope="session")
def filled_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowSite]:
    """Airflow's API server over the bucket of `tests/support/web/filled_bucket.py`; tests only read it."""
    from tests.support.web.filled_bucket import fill, release_files, utc_now

    releases = tmp_path_factory.mktemp("releases")
    release_files(releases)
    with moto_server() as endpoint, own_connection(endpoint) as conn_id:
        bucket = make_bucket(endpoint, f"slipway-filled-{next(_numbers)}")
        fill(ModelStoreHook(bucket, conn_id), utc_now())
        folder = tmp_path_factory.mktemp("airflow-filled")
        with airflow_site(folder, endpoint, bucket, SLIPWAY_RELEASES_DIR=str(releases)) as running:
            yield running


@pytest.fixture(scope="session")
def workflow_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowSite]:
    """Airflow's API server with the workflows in its database; tests act in it, each on a model of its own."""
    from tests.support.web.filled_bucket import release_files
    from tests.support.web.workflows import write_workflows

    releases = tmp_path_factory.mktemp("releases")
    release_files(releases)
    with moto_server() as endpoint:
        bucket = make_bucket(endpoint, "slipway-workflows")
        folder = tmp_path_factory.mktemp("airflow-workflows")
        with airflow_site(folder, endpoint, bucket, SLIPWAY_RELEASES_DIR=str(releases)) as running:
            write_workflows(running)
            yield running


@pytest.fixture(scope="session")
def client_of(site: AirflowSite) -> Iterator[Callable[[str], httpx.Client]]:
    """Return a client of the dashboard for a role; see `AirflowSite.client`."""
    made: dict[str, httpx.Client] = {}

    def client(role: str) -> httpx.Client:
        if role not in made:
            made[role] = site.client(role)
        return made[role]

    yield client
    for one in made.values():
        one.close()
