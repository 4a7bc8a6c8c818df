"""The page of a release as a person uses it: it follows the canary, and its buttons do what they say."""

from __future__ import annotations

import os
import re
import signal
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.browser import Visitor
from tests.support.web.live_canary import LiveCanary
from tests.support.web.workflows import runs_of


def _canary(records: ModelStoreHook, model: str, version: int = 3) -> LiveCanary:
    """Return a canary at its first step, of a model that has two versions."""
    now = datetime.now(UTC)
    LiveCanary(records, model, 1, None, now - timedelta(days=9)).begin().promote().publish()
    before = LiveCanary(records, model, 2, 1, now - timedelta(days=5)).begin()
    before.step().watch(2).end_step().promote().publish()
    canary = LiveCanary(records, model, version, 2, now - timedelta(minutes=4), by="mira").begin(
        reason="new data"
    )
    canary.step().watch(4).write_live().publish()
    return canary


def _open(page: Page) -> None:
    expect(page.locator("#part-figures")).to_be_visible()


def test_the_page_follows_the_canary_to_its_end(come_in: Visitor, records: ModelStoreHook) -> None:
    """Without being loaded again it shows new windows, the next step, the way back and why; then it asks no more."""
    canary = _canary(records, "digits")
    page = come_in("operator").go("/models/digits/versions/3")
    _open(page)
    page.evaluate("window.kept = true")
    expect(page.locator('.steps [aria-current="step"]')).to_contain_text("5 %")
    expect(page.locator("time[data-countdown]")).to_have_text(re.compile(r"\d+:\d\d|now"))
    exposed = page.locator("#part-figures").inner_text()

    canary.watch(8).end_step().step().watch(3, candidate_errors=0.05, slower=1.5).write_live().publish()
    expect(page.locator('.steps [aria-current="step"]')).to_contain_text("20 %")
    expect(page.locator("#verdict")).to_contain_text("20 % of the users")
    assert page.locator("#part-figures").inner_text() != exposed
    expect(page.locator("#voice")).to_contain_text("20 % of the users")
    assert page.locator("#chart-evidence polyline").count() >= 2

    canary.write_live(decision="roll_back").end_step("fail").roll_back(
        "errors rose from 0.4 % to 5 %"
    ).publish()
    expect(page.locator("#verdict")).to_have_text("Version 3 was rolled back by the judge.")
    expect(page.locator(".why-so")).to_contain_text("errors rose from 0.4 % to 5 %")
    expect(page.get_by_role("link", name="The canary, window by window")).to_be_visible()
    assert page.evaluate("window.kept")
    expect(page.locator("#release[data-pulse]")).to_have_count(0)


def test_pause_by_a_button_starts_the_run_under_the_persons_name(
    come_in: Visitor, workflow_site: AirflowSite, records: ModelStoreHook
) -> None:
    """The form opens, is sent without leaving the page, and Airflow has the run with the name and the reason."""
    _canary(records, "fraud-score")
    page = come_in("operator").go("/models/fraud-score/versions/3")
    page.get_by_role("button", name="Pause", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Keeps the candidate at its weight")
    dialog.get_by_role("textbox").fill("a look at the logs")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("#message")).to_contain_text("started as the run fraud-score-pause-")
    (run,) = [one for one in runs_of(workflow_site, "canary_pause") if one["conf"]["model"] == "fraud-score"]
    assert (run["triggering_user_name"], run["conf"]["reason"]) == ("operator", "a look at the logs")
    expect(page.locator('.steps [aria-current="step"]')).to_contain_text("5 %")


def test_a_roll_back_is_three_clicks_from_the_overview(
    come_in: Visitor, workflow_site: AirflowSite, records: ModelStoreHook
) -> None:
    """The release in flight, roll back, confirm: and why it is in front of the person all the while."""
    _canary(records, "search-ranker")
    page = come_in("operator").go("/")
    row = page.get_by_role("row", name="search-ranker")
    expect(row).to_contain_text("canary")
    row.locator(".flight").get_by_role("link", name="v3").click()
    page.get_by_role("button", name="Roll back", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Users leave version 3 within seconds; version 2 has all of them.")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("answers are wrong")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.locator("#message")).to_contain_text("started as the run search-ranker-rollback")
    (run,) = [
        one for one in runs_of(workflow_site, "model_rollback") if one["conf"]["model"] == "search-ranker"
    ]
    assert run["triggering_user_name"] == "operator"
    assert "version" not in run["conf"]


def test_a_button_that_makes_no_sense_says_why(come_in: Visitor, records: ModelStoreHook) -> None:
    """By the mouse, by the keyboard and to who does not see: the reason, and what to type instead."""
    _canary(records, "churn")
    page = come_in("operator").go("/models/churn/versions/3")
    resume = page.get_by_role("button", name="Resume", exact=True)
    why = page.locator("#act-resume-why")
    expect(why).to_be_hidden()
    resume.focus()
    expect(why).to_be_visible()
    expect(why).to_have_text(re.compile(r"The canary is not paused\..*slipway pause churn", re.DOTALL))
    expect(resume).to_have_accessible_description(re.compile("not paused"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_reason_that_is_needed_is_asked_for(
    come_in: Visitor, workflow_site: AirflowSite, records: ModelStoreHook
) -> None:
    """An abort without a reason is not sent, and Escape leaves everything as it is."""
    _canary(records, "text-embed")
    page = come_in("operator").go("/models/text-embed/versions/3")
    page.get_by_role("button", name="Abort", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Abort").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#message")).to_be_hidden()


def test_an_act_that_airflow_refuses_is_told_in_its_form(come_in: Visitor, records: ModelStoreHook) -> None:
    """The run of the release is not known to Airflow: the form stays open and says so."""
    _canary(records, "vision-ocr")
    visit = come_in("operator")
    page = visit.go("/models/vision-ocr/versions/3")
    page.get_by_role("button", name="Abort", exact=True).click()
    page.get_by_role("dialog").get_by_role("textbox").fill("not today")
    with page.expect_response(re.compile("/acts/abort")) as answer:
        page.get_by_role("dialog").get_by_role("button", name="Abort").click()
    assert answer.value.status == 404
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("was not found")
    # The browser tells of the answer 404 itself.
    assert [one for one in visit.wrong if "404" not in one] == []
    visit.wrong.clear()


def test_a_viewer_has_no_buttons(come_in: Visitor, records: ModelStoreHook) -> None:
    """Who may only look sees everything but what acts, and is told so."""
    _canary(records, "intent")
    page = come_in("viewer").go("/models/intent/versions/3")
    _open(page)
    expect(page.get_by_text("You have read-only access")).to_be_visible()
    assert page.locator("form[data-act]").count() == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_a_telephone_and_a_dark_screen(
    come_in: Visitor, records: ModelStoreHook, dark: bool
) -> None:
    """Nothing is wider than the window, and every part is there."""
    _canary(records, "intent")
    visit = come_in("operator", dark=dark, screen="narrow")
    page = visit.go("/models/intent/versions/3")
    _open(page)
    assert visit.width_over() == 0
    expect(page.get_by_role("heading", name="What happened")).to_be_attached()
    # A key is a short line, and no more of the picture.
    keys = page.locator(".legend svg").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert keys
    assert max(keys) < 10


def test_without_scripts_the_page_is_whole_and_acts(
    come_in: Visitor, workflow_site: AirflowSite, records: ModelStoreHook
) -> None:
    """The form opens as the browser's own popover, and leads to the page of the run."""
    _canary(records, "magika")
    page = come_in("operator", scripts=False).go("/models/magika/versions/3")
    _open(page)
    assert page.locator("#chart-errors polyline").count() >= 2
    page.get_by_role("button", name="Pause", exact=True).click()
    page.locator("#act-pause-reason").fill("no script here")
    page.locator("#act-pause-dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Requested by operator")).to_be_visible()
    expect(page.get_by_text("no script here")).to_be_visible()
    assert any(one["conf"]["model"] == "magika" for one in runs_of(workflow_site, "canary_pause"))


def test_a_server_that_does_not_answer_makes_the_page_say_since_when(
    come_in: Visitor, workflow_site: AirflowSite, records: ModelStoreHook
) -> None:
    """What is shown is told to be old while the server hangs, and is fresh again once it answers."""
    canary = _canary(records, "churn", version=4)
    page = come_in("operator").go("/models/churn/versions/4")
    _open(page)
    note = page.locator(".stale-now")
    expect(note).to_be_hidden()
    os.kill(workflow_site.pid, signal.SIGSTOP)
    try:
        expect(note).to_be_visible()
        expect(note).to_contain_text("The server has not answered since")
    finally:
        os.kill(workflow_site.pid, signal.SIGCONT)
    canary.watch(8).end_step().step().watch(1).write_live().publish()
    expect(note).to_be_hidden()
    expect(page.locator("#verdict")).to_contain_text("20 % of the users")
