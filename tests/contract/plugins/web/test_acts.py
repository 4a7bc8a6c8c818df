"""What a person may do on a page: Airflow decides it, names the person, and no other site's page can ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from slipway.web.acts.cross_site import make_token
from slipway.web.acts.forms import BODY_LIMIT_BYTES
from slipway.workflows import ADMIT_TASK, STOP_REASON
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.landings import land
from tests.support.web.workflows import (
    airflow_client,
    browser_client,
    end_run,
    form_token,
    runs_of,
    write_workflows,
)

pytestmark = pytest.mark.slow
PAUSE = {"model": "digits", "reason": "a look at the logs"}


@pytest.fixture(scope="module")
def airflow(site: AirflowSite) -> AirflowSite:
    """Airflow with the workflows in its database."""
    write_workflows(site)
    return site


@pytest.fixture
def operator(airflow: AirflowSite) -> Iterator[httpx.Client]:
    """A browser in which a person has signed in who may start runs."""
    with browser_client(airflow, "operator") as client:
        yield client


def _pauses(site: AirflowSite) -> list[str]:
    return [run["dag_run_id"] for run in runs_of(site, "canary_pause")]


def test_an_act_starts_a_run_under_the_persons_name(airflow: AirflowSite, operator: httpx.Client) -> None:
    """The run has what was filled in, the reason as its note, and who asked, as Airflow knows the person."""
    answer = operator.post("/acts/pause", data=PAUSE | {"token": form_token(airflow, "operator")})
    assert answer.status_code == 202, answer.text
    run = next(
        one for one in runs_of(airflow, "canary_pause") if one["dag_run_id"] == answer.json()["run_id"]
    )
    assert run["triggering_user_name"] == "operator"
    assert run["conf"] == {"model": "digits", "action": "pause", "reason": "a look at the logs"}
    assert run["note"] == "a look at the logs"
    assert run["dag_run_id"].startswith("digits-pause-")
    page = operator.get(
        answer.json()["page"].removeprefix("/slipway"), headers={"accept": "application/json"}
    )
    assert page.json()["message"] == "a look at the logs"
    assert page.json()["by"] == "operator"


def test_airflows_audit_log_has_the_act(airflow: AirflowSite, operator: httpx.Client) -> None:
    """An act leaves the same trace as a run that is started in Airflow."""
    operator.post("/acts/pause", data=PAUSE | {"token": form_token(airflow, "operator")})
    with airflow_client(airflow, "admin") as client:
        logged = client.get("/eventLogs", params={"dag_id": "canary_pause", "order_by": "-id"}).json()[
            "event_logs"
        ]
    assert ("trigger_dag_run", "operator") in [(one["event"], one["owner"]) for one in logged]


def test_a_viewer_is_refused(airflow: AirflowSite) -> None:
    """Who may read and not act gets 403 by Airflow's own word, and no run exists."""
    before = _pauses(airflow)
    with browser_client(airflow, "viewer") as client:
        answer = client.post("/acts/pause", data=PAUSE | {"token": form_token(airflow, "viewer")})
    assert answer.status_code == 403
    assert "do not have permission" in answer.json()["detail"]
    assert _pauses(airflow) == before


FOREIGN: dict[str, dict[str, str]] = {
    "another site": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    "a sub-domain": {"Sec-Fetch-Site": "same-site"},
    "another origin alone": {"Origin": "https://evil.example"},
    "a hidden origin": {"Origin": "null"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "an address typed in": {"Sec-Fetch-Site": "none"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_another_sites_page_is_refused(
    airflow: AirflowSite, operator: httpx.Client, headers: dict[str, str]
) -> None:
    """With the person's cookie and even with a good token, a request that comes from elsewhere does nothing."""
    before = _pauses(airflow)
    answer = operator.post(
        "/acts/pause", data=PAUSE | {"token": form_token(airflow, "operator")}, headers=headers
    )
    assert answer.status_code == 403
    assert _pauses(airflow) == before


def test_who_does_not_say_where_it_comes_from_is_refused(
    airflow: AirflowSite, operator: httpx.Client
) -> None:
    """Neither header: no browser of today, and no form of ours."""
    del operator.headers["Origin"], operator.headers["Sec-Fetch-Site"]
    answer = operator.post("/acts/pause", data=PAUSE | {"token": form_token(airflow, "operator")})
    assert answer.status_code == 403


def test_a_form_needs_a_token_that_was_made_for_the_person(
    airflow: AirflowSite, operator: httpx.Client
) -> None:
    """None, another person's, one signed with another key, and nonsense are refused."""
    before = _pauses(airflow)
    for token in ("", form_token(airflow, "colleague"), make_token("another key", "operator"), "x" * 5000):
        answer = operator.post("/acts/pause", data=PAUSE | {"token": token})
        assert answer.status_code == 403, token[:20]
    assert _pauses(airflow) == before


def test_a_form_that_is_sent_twice_starts_one_run(airflow: AirflowSite, operator: httpx.Client) -> None:
    """A double click, and a form sent again later, find the run of the first time."""
    before = len(_pauses(airflow))
    data = PAUSE | {"token": form_token(airflow, "operator")}
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: operator.post("/acts/pause", data=data), range(2)))
    answers.append(operator.post("/acts/pause", data=data))
    assert sorted(one.status_code for one in answers) == [200, 200, 202]
    assert len({one.json()["run_id"] for one in answers}) == 1
    assert len(_pauses(airflow)) == before + 1


def test_a_release_has_the_plain_name_and_is_not_started_twice(
    airflow: AirflowSite, operator: httpx.Client
) -> None:
    """While a release of a version is under way another form finds it; after its end the next attempt is numbered."""
    land(airflow, "digits", 77)
    data = {"model": "digits", "version": "77"}
    first = operator.post("/acts/release", data=data | {"token": form_token(airflow, "operator")})
    again = operator.post("/acts/release", data=data | {"token": form_token(airflow, "operator")})
    assert (first.status_code, first.json()["run_id"]) == (202, "digits-77")
    assert (again.status_code, again.json()["run_id"]) == (200, "digits-77")
    end = {"model": "digits", "release_id": "digits-77", "reason": "not today"}
    ended = operator.post("/acts/abort", data=end | {"token": form_token(airflow, "operator")})
    assert ended.status_code == 202, ended.text
    run = next(one for one in runs_of(airflow, "model_release") if one["dag_run_id"] == "digits-77")
    assert run["note"] == "Aborted: not today"
    with airflow_client(airflow, "admin") as client:
        path = "/dags/model_release/dagRuns/digits-77/taskInstances"
        tasks = {one["task_id"]: one["state"] for one in client.get(path).json()["task_instances"]}
        told = client.get(f"{path}/{ADMIT_TASK}/xcomEntries/{STOP_REASON}").json()
    assert told["value"] == "not today", "what the teardowns read"
    assert tasks["rollout.shift_traffic"] == "skipped"
    assert tasks["conclude"] is None, "a teardown is still to run"
    end_run(airflow, "model_release", "digits-77", "failed")
    late = operator.post("/acts/abort", data=end | {"token": form_token(airflow, "operator")})
    assert late.status_code == 409
    assert "is over" in late.json()["detail"]
    next_one = operator.post("/acts/release", data=data | {"token": form_token(airflow, "operator")})
    assert next_one.json()["run_id"] == "digits-77-2"


def test_an_abort_ends_no_release_of_another_model(airflow: AirflowSite, operator: httpx.Client) -> None:
    """The run must be one of the model that the page was about."""
    land(airflow, "digits", 78)
    data = {"model": "digits", "version": "78"}
    operator.post("/acts/release", data=data | {"token": form_token(airflow, "operator")})
    end = {"model": "drift", "release_id": "digits-78", "reason": "a mistake"}
    answer = operator.post("/acts/abort", data=end | {"token": form_token(airflow, "operator")})
    assert answer.status_code == 404
    run = next(one for one in runs_of(airflow, "model_release") if one["dag_run_id"] == "digits-78")
    assert run["state"] in ("queued", "running")


BAD: dict[str, tuple[str, dict[str, Any], int]] = {
    "no such act": ("explode", {}, 404),
    "no reason": ("rollback", {"model": "digits"}, 422),
    "a short reason": ("rollback", {"model": "digits", "reason": "no"}, 422),
    "a long reason": ("rollback", {"model": "digits", "reason": "x" * 501}, 422),
    "a model that climbs": ("pause", {"model": "../digits"}, 422),
    "a model that is not released here": ("pause", {"model": "no-such-model"}, 400),
    "a version that is none": ("reject", {"model": "digits", "version": "2.5", "reason": "wrong"}, 422),
    "a box that is neither": ("release", {"model": "digits", "version": "2", "force": "maybe"}, 422),
    "an end that is none": ("freeze", {"until": "soon", "reason": "holidays"}, 422),
    "no question": ("approve", {}, 422),
    "a question that there is not": (
        "approve",
        {"question_dag": "model_release", "question_run": "none", "question_task": "rollout.approve"},
        404,
    ),
    "a task outside of the api": (
        "approve",
        {"question_dag": "../../connections", "question_run": "x", "question_task": "y"},
        404,
    ),
}


@pytest.mark.parametrize(("name", "data", "status"), BAD.values(), ids=BAD)
def test_what_makes_no_sense_is_refused(
    airflow: AirflowSite, operator: httpx.Client, name: str, data: dict[str, Any], status: int
) -> None:
    """Before a run exists, with a sentence that says what is wrong."""
    answer = operator.post(f"/acts/{name}", data=data | {"token": form_token(airflow, "operator")})
    assert answer.status_code == status, answer.text
    assert len(answer.json()["detail"]) > 10


def test_a_body_is_bounded(airflow: AirflowSite, operator: httpx.Client) -> None:
    """What is larger than any form, has more fields, or is none, is not read on."""
    token = form_token(airflow, "operator")
    large = operator.post("/acts/pause", data=PAUSE | {"token": token, "more": "x" * BODY_LIMIT_BYTES})
    assert large.status_code == 413
    streamed = operator.post(
        "/acts/pause",
        content=(b"x" * 1000 for _ in range(100)),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert streamed.status_code == 413
    many = operator.post("/acts/pause", data=PAUSE | {"token": token} | {f"f{n}": "1" for n in range(60)})
    assert many.status_code == 422
    twice = operator.post(
        "/acts/pause",
        content=f"model=digits&model=drift&token={token}",
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert twice.status_code == 422
    plain = operator.post("/acts/pause", content="model=digits", headers={"content-type": "text/plain"})
    assert plain.status_code == 422


def test_a_program_may_send_json(airflow: AirflowSite, operator: httpx.Client) -> None:
    """The page's script may send what a form would."""
    body = PAUSE | {"token": form_token(airflow, "operator")}
    assert operator.post("/acts/resume", json=body).status_code == 202
    for bad in ([], {"model": ["digits"]}, {"model": {"a": 1}}):
        assert operator.post("/acts/resume", json=bad).status_code == 422


def test_without_a_script_the_answer_is_a_page(airflow: AirflowSite, operator: httpx.Client) -> None:
    """A plain form leads to the page of its run, which says who asked and why."""
    del operator.headers["slipway-poll"]
    answer = operator.post(
        "/acts/pause", data=PAUSE | {"token": form_token(airflow, "operator")}, follow_redirects=True
    )
    assert answer.status_code == 200
    assert "a look at the logs" in answer.text
    assert "Requested by operator" in answer.text
    refused = operator.post(
        "/acts/rollback", data={"model": "digits", "token": form_token(airflow, "operator")}
    )
    assert (refused.status_code, "a reason is needed" in refused.text) == (422, True)
