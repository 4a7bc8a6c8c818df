"""Data Docs of great-expectations in a real browser: reached from the evidence, and loading nothing from elsewhere."""

from __future__ import annotations

import pandas as pd
import pytest
from playwright.sync_api import expect

from slipway.hooks.s3_store import ModelStoreHook
from slipway.quality.checkpoints import object_name, run_suite
from slipway.quality.data_docs import data_docs
from slipway_core.bucket_layout import evidence_prefix
from slipway_core.reports.data_docs.page import FOLDER
from tests.support.store.connections import own_connection
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.browser import Visitor

pytestmark = pytest.mark.timeout(300)
HOSTILE = "<img src=http://elsewhere/x onerror=alert(1)>"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The library's pages of a table with a hostile column."""
    asked = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": HOSTILE, "value_set": ["a"]}}
    frame = pd.DataFrame({HOSTILE: ["a", "<script>alert(1)</script>"]})
    run = run_suite(frame, [{**asked, "meaning": "known names"}], object_name("digits", "golden"), "digits-2")
    return data_docs("digits", 2, [("golden", run)])


def test_the_pages_load_nothing_and_lead_to_each_other(
    visit: Visitor, filled_site: AirflowSite, pages: dict[str, str]
) -> None:
    """From the evidence to a result and its suite: in a sandbox, with no request but for the pages themselves."""
    with own_connection(filled_site.store_endpoint) as conn_id:
        store = ModelStoreHook(filled_site.bucket, conn_id)
        prefix = f"{evidence_prefix('digits', 2, 'digits-2')}{FOLDER}"
        for name, page in pages.items():
            store.write(f"{prefix}{name}", page.encode(), content_type="text/html; charset=utf-8")
    shown = visit().go("/evidence/digits/2/")
    requests: list[str] = []
    said: list[str] = []
    shown.get_by_role("link", name=f"{FOLDER}index.html").wait_for()
    shown.on("request", lambda request: requests.append(request.url))
    shown.on("console", lambda message: said.append(message.text))
    shown.on("dialog", lambda dialog: said.append(dialog.message))
    shown.get_by_role("link", name=f"{FOLDER}index.html").click()
    expect(shown.get_by_role("heading", level=1)).to_contain_text("Data Docs")
    shown.get_by_role("link", name="page", exact=True).first.click()
    expect(shown.get_by_role("heading", level=1)).to_contain_text("slipway.digits.golden validation result")
    expect(shown.locator("main")).to_contain_text("1 unexpected values found")
    assert shown.evaluate("window.origin") == "null"
    shown.get_by_role("link", name="slipway.digits.golden").click()
    expect(shown.get_by_role("heading", level=1)).to_contain_text("expectation suite")
    expect(shown.locator("main")).to_contain_text("‹img src=http://elsewhere/x")
    assert [url.rpartition("/")[2] for url in requests] == ["index.html", "golden.html", "golden_suite.html"]
    assert {url.split("/slipway/")[0] for url in requests} == {filled_site.url}
    assert said == []
