"""The inbox: what waits for a person is there with its evidence, and an answer is Airflow's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.store.connections import own_connection
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.live_canary import LiveCanary
from tests.support.web.workflows import (
    airflow_client,
    ask,
    browser_client,
    end_run,
    form_token,
    start_run,
    write_workflows,
)

pytestmark = pytest.mark.slow
MODEL, RUN, TASK = "digits", "digits-41", "rollout.approve"
BODY = "It would replace `v40`.\n\n| stage | outcome |\n|---|---|\n| validate | passed |\n\n<script>alert(1)</script>"


@pytest.fixture(scope="module")
def airflow(site: AirflowSite) -> Iterator[AirflowSite]:
    """Airflow with a release that asks a person, started by the operator, where another person must agree."""
    write_workflows(site)
    with own_connection(site.store_endpoint) as conn_id:
        _write_records(ModelStoreHook(site.bucket, conn_id))
    start_run(site, "operator", "model_release", RUN, {"model": MODEL, "version": 41, "reason": "new data"})
    ask(site, "model_release", RUN, TASK, subject="Release digits version 41 to live traffic?", body=BODY)
    start_run(site, "operator", "repository_gc", "gc-1", {"dry_run": False})
    ask(site, "repository_gc", "gc-1", "approve", subject="Delete old versions of models?", body="3 versions")
    yield site
    for dag_id, run_id in (("model_release", RUN), ("repository_gc", "gc-1")):
        end_run(site, dag_id, run_id, "failed")


def _write_records(store: ModelStoreHook) -> None:
    began = datetime.now(UTC) - timedelta(minutes=20)
    LiveCanary(store, MODEL, 40, None, began - timedelta(days=3)).begin().promote().publish()
    asking = LiveCanary(store, MODEL, 41, 40, began, approvals=("canary",)).begin().ask()
    asking.report("validation.html", "<p>the figures")
    asking.publish()


def _questions(site: AirflowSite, role: str) -> dict[str, dict[str, Any]]:
    with browser_client(site, role) as client:
        found = client.get("/api/approvals").raise_for_status().json()["questions"]
    return {one["run_id"]: one for one in found}


def _answer(site: AirflowSite, role: str, act: str, **fields: str) -> Any:
    data = {
        "question_dag": "model_release",
        "question_run": RUN,
        "question_task": TASK,
        "token": form_token(site, role),
    }
    with browser_client(site, role) as client:
        return client.post(f"/acts/{act}", data=data | fields)


def test_what_waits_is_told_with_who_started_it(airflow: AirflowSite) -> None:
    """A program reads the same: what is asked, about which version, who started it, who may not agree."""
    found = _questions(airflow, "colleague")
    assert set(found) == {RUN, "gc-1"}
    one = found[RUN]
    assert (one["model"], one["version"], one["started_by"], one["refusal"]) == (MODEL, 41, "operator", "")
    own = _questions(airflow, "operator")
    assert "another person must approve" in own[RUN]["refusal"]
    assert "another person must approve" in own["gc-1"]["refusal"]


def test_the_page_has_the_evidence_inside(airflow: AirflowSite) -> None:
    """Gates, the workflow's text and the report in a sandboxed frame; what the text has of HTML is shown as text."""
    with browser_client(airflow, "colleague") as client:
        page = client.get("/approvals")
    assert "Release digits version 41 to live traffic?" in page.text
    assert "<td>validate</td>" in page.text
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert" in page.text
    assert '<iframe sandbox loading="lazy"' in page.text
    assert "/slipway/evidence/digits/41/digits-41/validation.html" in page.text
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    assert 'id="act-approve-0"' in page.text


def test_who_started_it_sees_why_not(airflow: AirflowSite) -> None:
    """The button to approve is off with the reason; to decline is open."""
    with browser_client(airflow, "operator") as client:
        page = client.get("/approvals").text
    assert "You started this run, so another person must approve it." in page
    assert 'id="act-approve-0-dialog"' not in page
    assert 'id="act-decline-0-dialog"' in page


def test_a_viewer_sees_and_may_not_answer(airflow: AirflowSite) -> None:
    """No button on the page, and Airflow's own refusal where the form is sent all the same."""
    with browser_client(airflow, "viewer") as client:
        page = client.get("/approvals").text
    assert "Release digits version 41" in page
    assert "act-approve" not in page
    assert "read-only access" in page
    answer = _answer(airflow, "viewer", "approve")
    assert answer.status_code == 403
    assert RUN in _questions(airflow, "viewer")


def test_a_decline_needs_a_reason(airflow: AirflowSite) -> None:
    """Without one nothing is answered."""
    assert _answer(airflow, "colleague", "decline").status_code == 422
    assert RUN in _questions(airflow, "colleague")


def test_an_answer_is_taken_once_under_the_persons_name(airflow: AirflowSite) -> None:
    """Airflow keeps who answered what, the question is gone, and a second answer changes nothing."""
    first = _answer(airflow, "colleague", "approve", reason="the figures are fine")
    assert first.status_code == 202, first.text
    assert RUN not in _questions(airflow, "colleague")
    second = _answer(airflow, "admin", "decline", reason="too late")
    assert (second.status_code, second.json()["is_new"]) == (200, False)
    with airflow_client(airflow, "admin") as client:
        path = f"/dags/model_release/dagRuns/{RUN}/taskInstances/{TASK}/-1/hitlDetails"
        detail = client.get(path).raise_for_status().json()
    assert detail["responded_by_user"]["name"] == "colleague"
    assert detail["chosen_options"] == ["Approve"]
    assert detail["params_input"] == {"comment": "the figures are fine"}
