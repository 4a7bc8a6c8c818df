"""Names and notes of runs in Airflow's real API server: whoever starts a run, and whatever its tasks tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.auth.tokens import JWTGenerator

from tests.support.waiting import wait_until
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.workflows import airflow_client, runs_of, write_workflows

pytestmark = pytest.mark.slow
LIMIT_S = 30


@pytest.fixture(scope="module")
def airflow(site: AirflowSite) -> AirflowSite:
    """Airflow with the workflows in its database."""
    write_workflows(site)
    return site


@pytest.fixture
def operator(airflow: AirflowSite) -> Iterator[httpx.Client]:
    """A client of Airflow's own API, as the UI's form is one, of a person who may start runs."""
    with airflow_client(airflow, "operator") as client:
        yield client


@pytest.fixture
def task(airflow: AirflowSite) -> Iterator[httpx.Client]:
    """What a task's process asks the API server by."""
    secret = airflow.environment["AIRFLOW__API_AUTH__JWT_SECRET"]
    generator = JWTGenerator(secret_key=secret, valid_for=600, audience="urn:airflow.apache.org:task")
    token = generator.generate({"sub": "0199d1b2-0000-7000-8000-000000000001"})
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{airflow.url}/execution", headers=headers, timeout=60) as client:
        yield client


def start(client: httpx.Client, dag_id: str, conf: dict[str, Any], **given: Any) -> httpx.Response:
    """Start a run as the UI's form does."""
    return client.post(f"/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf, **given})


def note_of(client: httpx.Client, run_id: str) -> str | None:
    note: str | None = client.get(f"/dags/model_release/dagRuns/{run_id}").json()["note"]
    return note


def tell(task: httpx.Client, run_id: str, note: object, key: str = "run_note") -> int:
    return task.post(f"/xcoms/model_release/{run_id}/admit/{key}", json=note).status_code


def test_a_run_is_named_after_what_it_is_about(airflow: AirflowSite, operator: httpx.Client) -> None:
    """From the form and over the API; the next attempt has the next number, and a name of one's own stays."""
    first, second = (start(operator, "model_release", {"model": "digits", "version": 21}) for _ in range(2))
    assert [first.json()["dag_run_id"], second.json()["dag_run_id"]] == ["digits-21", "digits-21-2"]
    assert first.json()["triggering_user_name"] == "operator"
    own = start(operator, "model_release", {"model": "digits", "version": 21}, dag_run_id="mine")
    assert own.json()["dag_run_id"] == "mine"
    back = start(operator, "model_rollback", {"model": "digits", "version": 1, "reason": "too slow"})
    assert re.fullmatch(r"digits-rollback-to-1-\d{8}T\d{6}", back.json()["dag_run_id"])
    assert "digits-21-2" in [run["dag_run_id"] for run in runs_of(airflow, "model_release")]


def test_who_may_not_start_a_run_gets_none_by_its_name(airflow: AirflowSite) -> None:
    """Airflow refuses a viewer and a stranger as it would without the name."""
    conf = {"model": "digits", "version": 22}
    with airflow_client(airflow, "viewer") as viewer:
        assert start(viewer, "model_release", conf).status_code == 403
    with httpx.Client(base_url=f"{airflow.url}/api/v2") as stranger:
        assert start(stranger, "model_release", conf).status_code == 401
    assert "digits-22" not in [run["dag_run_id"] for run in runs_of(airflow, "model_release")]


@pytest.mark.parametrize(
    "conf", [{"model": "no-such-model", "version": 2}, {"model": "digits", "version": "x"}, {}]
)
def test_airflow_says_what_is_wrong_with_a_form(operator: httpx.Client, conf: dict[str, Any]) -> None:
    """A form that is refused is refused with Airflow's own words."""
    answer = start(operator, "model_release", conf)
    assert answer.status_code == 400
    assert "detail" in answer.json()


def test_what_a_task_tells_is_the_runs_note(operator: httpx.Client, task: httpx.Client) -> None:
    """The newest of it, beside what a person has written."""
    run_id = start(operator, "model_release", {"model": "digits", "version": 23}).json()["dag_run_id"]
    assert tell(task, run_id, "digits 23: release started by operator") == 201
    wait_until(
        lambda: note_of(operator, run_id) == "digits 23: release started by operator", "the note", LIMIT_S
    )
    mine = "digits 23: release started by operator\n\nLooks good to me."
    operator.patch(f"/dags/model_release/dagRuns/{run_id}", json={"note": mine}).raise_for_status()
    assert tell(task, run_id, "digits 23: promoted.") == 201
    wait_until(
        lambda: note_of(operator, run_id) == "digits 23: promoted.\n\nLooks good to me.", "both", LIMIT_S
    )


def test_only_a_task_tells_notes(operator: httpx.Client, airflow: AirflowSite, task: httpx.Client) -> None:
    """Nobody without a task's token, and no other XCom; a run that is not there has no note."""
    run_id = start(operator, "model_release", {"model": "digits", "version": 24}).json()["dag_run_id"]
    with httpx.Client(base_url=f"{airflow.url}/execution", timeout=60) as stranger:
        assert tell(stranger, run_id, "digits 24: promoted.") in (401, 403)
    assert tell(task, run_id, "digits 24: another key", key="return_value") == 201
    assert tell(task, run_id, {"not": "text"}) == 201
    tell(task, "no-such-run", "digits 24: nobody's")
    assert tell(task, run_id, "digits 24: release started") == 201
    wait_until(lambda: note_of(operator, run_id) is not None, "the note", LIMIT_S)
    assert note_of(operator, run_id) == "digits 24: release started"
