"""Pages over a store that hangs say how old they are, keep back what raises, and are current again by themselves."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.store.connections import make_bucket, own_connection
from tests.support.store.store_process import StoreProcess
from tests.support.web.airflow_site import AirflowSite, airflow_site
from tests.support.web.browser import Visitor, visitors
from tests.support.web.live_canary import LiveCanary
from tests.support.web.workflows import write_workflows

LIMIT_MS = 120_000  # a busy machine


@pytest.fixture(scope="module")
def stoppable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """An object store in a process of its own."""
    one = StoreProcess(tmp_path_factory.mktemp("store"))
    yield one
    one.signal(signal.SIGCONT)
    one.process.kill()
    one.process.wait()


@pytest.fixture(scope="module")
def hanging_site(
    stoppable: StoreProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[AirflowSite, LiveCanary]]:
    """Airflow's API server over it; version 5 of `digits` is in its canary."""
    bucket = make_bucket(stoppable.url, "slipway-hanging")
    with own_connection(stoppable.url) as conn_id:
        canary = _canary(ModelStoreHook(bucket, conn_id))
        with airflow_site(tmp_path_factory.mktemp("airflow-hanging"), stoppable.url, bucket) as site:
            write_workflows(site)
            yield site, canary


def _canary(store: ModelStoreHook) -> LiveCanary:
    now = datetime.now(UTC)
    LiveCanary(store, "digits", 4, None, now - timedelta(days=3)).begin().promote().publish()
    canary = LiveCanary(store, "digits", 5, 4, now - timedelta(minutes=4), by="mira").begin()
    canary.step().watch(4).write_live().publish()
    return canary


@pytest.fixture
def come(browser: Browser, hanging_site: tuple[AirflowSite, LiveCanary]) -> Iterator[Visitor]:
    """Opens a window for a person."""
    with visitors(hanging_site[0], browser) as one:
        yield one


@pytest.mark.parametrize(
    ("path", "raises", "goes_back"),
    [
        ("/models/digits", "Release…", "Roll back…"),
        ("/models/digits/versions/5", "Resume", "Roll back"),
    ],
    ids=["model", "release"],
)
def test_a_page_over_a_hanging_store_says_its_age_and_is_current_soon_after(
    come: Visitor, stoppable: StoreProcess, path: str, raises: str, goes_back: str
) -> None:
    """What raises is kept back, the way back is not; without being loaded again the page is as before."""
    page = come("operator").go(path)
    age, health = page.locator("#age"), page.locator("#health")
    expect(age).to_be_empty()
    expect(page.get_by_role("button", name=goes_back, exact=True).first).not_to_have_attribute(
        "aria-disabled", "true"
    )
    page.evaluate("window.kept = true")
    stoppable.signal(signal.SIGSTOP)
    try:
        expect(age).to_contain_text("Data from", timeout=LIMIT_MS)
        raising = page.get_by_role("button", name=raises, exact=True).first
        expect(raising).to_have_attribute("aria-disabled", "true", timeout=LIMIT_MS)
        expect(raising).to_have_accessible_description(re.compile("The current state is unknown"))
        back = page.get_by_role("button", name=goes_back, exact=True).first
        expect(back).not_to_have_attribute("aria-disabled", "true")
        expect(health).to_contain_text(
            re.compile(r"object store has not answered since \d\d:\d\d:\d\d UTC"), timeout=LIMIT_MS
        )
    finally:
        stoppable.signal(signal.SIGCONT)
    expect(age).to_be_empty(timeout=LIMIT_MS)
    expect(health).not_to_contain_text("object store", timeout=LIMIT_MS)
    assert page.evaluate("window.kept")


def test_a_page_that_could_not_be_made_is_there_once_the_store_is_back(
    come: Visitor, stoppable: StoreProcess
) -> None:
    """It loads itself again; nobody has to."""
    visit = come("operator")
    stoppable.signal(signal.SIGSTOP)
    try:
        answer = visit.page.goto(f"{visit.site.dashboard}/models/digits/versions/4", timeout=LIMIT_MS)
        assert answer is not None
        assert answer.status == 503
    finally:
        stoppable.signal(signal.SIGCONT)
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("version 4", timeout=LIMIT_MS)
    # The browser tells of the answer 503 itself.
    assert [one for one in visit.wrong if "503" not in one] == []
    visit.wrong.clear()
