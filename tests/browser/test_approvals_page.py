"""The inbox as a person uses it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.browser import Visitor
from tests.support.web.live_canary import LiveCanary
from tests.support.web.workflows import airflow_client, ask, start_run

RUN = "digits-51"
WHY_NOT = "You started this run, so another person must approve it. You can decline it."
QUESTION = "Release digits version 51 to live traffic?"


@pytest.fixture
def asked(workflow_site: AirflowSite, records: ModelStoreHook) -> None:
    """A release that the operator has started waits for another person."""
    now = datetime.now(UTC)
    LiveCanary(records, "digits", 50, None, now - timedelta(days=2)).begin().promote().publish()
    waiting = (
        LiveCanary(records, "digits", 51, 50, now - timedelta(minutes=9), approvals=("canary",)).begin().ask()
    )
    waiting.report("validation.html", "<!doctype html><title>v</title><p>Accuracy 98.75 %")
    waiting.publish()
    start_run(workflow_site, "operator", "model_release", RUN, {"model": "digits", "version": 51})
    ask(workflow_site, "model_release", RUN, "rollout.approve", subject=QUESTION, body="Accuracy **0.9875**.")


def test_a_question_is_declined_with_a_reason_and_is_gone(
    come_in: Visitor, workflow_site: AirflowSite, asked: None
) -> None:
    """The starter sees why not; a colleague sees the evidence within, must say why, and the question disappears."""
    own = come_in("operator", dark=True).go("/approvals")
    approve = own.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_have_attribute("aria-disabled", "true")
    expect(own.get_by_text(WHY_NOT, exact=True)).to_be_visible()

    visit = come_in("colleague", screen="narrow")
    page = visit.go("/approvals")
    expect(page.get_by_role("heading", name=QUESTION)).to_be_visible()
    page.get_by_text("Validation on the golden set").last.click()
    expect(page.frame_locator("iframe").get_by_text("Accuracy 98.75 %")).to_be_visible()
    assert visit.width_over() == 0
    page.locator("iframe").evaluate("frame => { frame.kept = true }")
    with page.expect_response(lambda answer: answer.url.endswith("/slipway/approvals")):
        pass
    assert page.locator("iframe").evaluate("frame => frame.kept"), "who reads a report goes on reading"
    page.get_by_role("button", name="Decline", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Decline").click()
    expect(dialog).to_be_visible()
    dialog.get_by_role("textbox").fill("the golden set is from May")
    dialog.get_by_role("button", name="Decline").click()
    expect(page.get_by_role("heading", name=QUESTION)).to_have_count(0)
    with airflow_client(workflow_site, "admin") as client:
        path = f"/dags/model_release/dagRuns/{RUN}/taskInstances/rollout.approve/-1/hitlDetails"
        detail = client.get(path).raise_for_status().json()
    assert detail["responded_by_user"]["name"] == "colleague"
    assert (detail["chosen_options"], detail["params_input"]) == (
        ["Reject"],
        {"comment": "the golden set is from May"},
    )
