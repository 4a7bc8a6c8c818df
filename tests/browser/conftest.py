"""The dashboard in a real browser: Airflow's API server, moto's S3, Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.store.connections import own_connection
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.browser import Visitor, chromium, visitors
from tests.support.web.fixtures import filled_site, workflow_site

__all__ = ["filled_site", "workflow_site"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    with chromium() as one:
        yield one


@pytest.fixture
def visit(browser: Browser, filled_site: AirflowSite) -> Iterator[Visitor]:
    """Opens a window for a person; see `tests/support/web/browser.py`."""
    with visitors(filled_site, browser) as one:
        yield one


@pytest.fixture
def come_in(browser: Browser, workflow_site: AirflowSite) -> Iterator[Visitor]:
    """Opens a window for a person where tests act."""
    with visitors(workflow_site, browser) as one:
        yield one


@pytest.fixture(scope="session")
def records(workflow_site: AirflowSite) -> Iterator[ModelStoreHook]:
    """The bucket of the site where tests act."""
    with own_connection(workflow_site.store_endpoint) as conn_id:
        yield ModelStoreHook(workflow_site.bucket, conn_id)
