"""The page of the installation: what was found, its age, and that nothing is known without a report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.doctor.report import REPORT_KEY, DoctorReport
from tests.support.store.connections import own_connection
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.examined import LINES, examined


@pytest.fixture
def viewer(site: AirflowSite) -> Iterator[httpx.Client]:
    """Who may read."""
    with site.client("viewer") as client:
        yield client


@pytest.fixture
def store(site: AirflowSite) -> Iterator[ModelStoreHook]:
    """The site's bucket; no report lies there before and after the test."""
    with own_connection(site.store_endpoint) as conn_id:
        store = ModelStoreHook(site.bucket, conn_id)
        store.delete(REPORT_KEY)
        yield store
        store.delete(REPORT_KEY)


def test_without_a_report_nothing_is_known(viewer: httpx.Client, store: ModelStoreHook) -> None:
    """The page does not look as if all were well."""
    page = viewer.get("/doctor")
    assert page.status_code == 200
    assert "was not examined yet, so nothing is known" in page.text
    assert viewer.get("/api/doctor").status_code == 404


def test_a_report_is_shown_with_its_age_and_what_needs_somebody_first(
    viewer: httpx.Client, store: ModelStoreHook
) -> None:
    """As text, whatever a server answered."""
    store.write(REPORT_KEY, examined(datetime.now(UTC) - timedelta(hours=3)).to_bytes())
    page = viewer.get("/doctor").text
    assert "3 h ago" in page
    assert "kubectl -n models create role slipway-leases" in page
    assert "&lt;b&gt;no pod" in page
    places = [page.index(line.what) for line in sorted(LINES, key=lambda one: _ORDER.index(one.status))]
    assert places == sorted(places)
    assert "see whether it is paused" not in page
    answer = viewer.get("/api/doctor").json()
    assert (answer.pop("exit_code"), answer.pop("age_s") >= 3 * 3600) == (1, True)
    assert DoctorReport.model_validate_json(httpx.Response(200, json=answer).content).lines == LINES


_ORDER = ["failed", "unknown", "warning", "skipped", "ok"]


def test_an_old_report_says_so(viewer: httpx.Client, store: ModelStoreHook) -> None:
    """The DAG that writes it runs daily."""
    store.write(REPORT_KEY, examined(datetime.now(UTC) - timedelta(days=3)).to_bytes())
    assert "see whether it is paused" in viewer.get("/doctor").text


def test_what_is_no_report_is_not_shown(viewer: httpx.Client, store: ModelStoreHook) -> None:
    """Nothing is known then, and the page says so."""
    store.write(REPORT_KEY, b'{"lines": []}')
    page = viewer.get("/doctor")
    assert page.status_code == 200
    assert "cannot be read, so nothing is known" in page.text
    assert viewer.get("/api/doctor").status_code >= 400


@pytest.mark.parametrize("path", ["/doctor", "/api/doctor"])
def test_who_may_not_read_sees_nothing_of_it(site: AirflowSite, path: str) -> None:
    """As on every page."""
    with site.client("nobody") as nobody:
        assert nobody.get(path).status_code == 403
