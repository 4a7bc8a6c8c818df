"""What no record knows, on the pages of Airflow's API server: runs that wait, uploads that cannot be released."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import httpx
import pytest

from tests.support.waiting import wait_until
from tests.support.web.airflow_site import AirflowSite
from tests.support.web.landings import land
from tests.support.web.workflows import airflow_client, browser_client, form_token, runs_of, write_workflows

pytestmark = pytest.mark.slow
MODEL = "digits"


@pytest.fixture(scope="module")
def airflow(site: AirflowSite) -> AirflowSite:
    """Airflow with the workflows in its database; nothing schedules its runs."""
    write_workflows(site)
    return site


@pytest.fixture
def operator(airflow: AirflowSite) -> Iterator[httpx.Client]:
    """A browser in which a person has signed in who may start runs."""
    with browser_client(airflow, "operator") as client:
        yield client


def _release(airflow: AirflowSite, operator: httpx.Client, version: int) -> httpx.Response:
    token = form_token(airflow, "operator")
    return operator.post("/acts/release", data={"model": MODEL, "version": str(version), "token": token})


def test_a_version_that_has_not_landed_is_refused_at_once(
    airflow: AirflowSite, operator: httpx.Client
) -> None:
    """The form says so, and no run is started."""
    answer = _release(airflow, operator, 901)
    assert answer.status_code == 422, answer.text
    assert "version 901 of 'digits' has not landed" in answer.json()["detail"].lower()
    assert "incoming/digits/901/" in answer.json()["remedy"]
    assert "digits-901" not in {run["dag_run_id"] for run in runs_of(airflow, "model_release")}


def test_a_run_that_waits_is_on_every_page(airflow: AirflowSite, operator: httpx.Client) -> None:
    """Nothing schedules here: the overview, the model and the version say what the run waits for."""
    land(airflow, MODEL, 902)
    assert _release(airflow, operator, 902).status_code == 202

    def tells(words: str) -> bool:
        answer = operator.get("/models/digits/versions/902")
        return answer.status_code == 200 and words in answer.text

    # As it is created, a workflow is paused.
    wait_until(lambda: tells("the workflow is paused in Airflow"), "the page tells of Airflow's switch", 120)
    with airflow_client(airflow, "admin") as client:
        client.patch("/dags/model_release", json={"is_paused": False}).raise_for_status()
    wait_until(lambda: tells("waiting for the scheduler"), "the version's page shows its run", 120)
    for path in ("/", "/models/digits"):
        text = operator.get(path).text
        assert "v902" in text
        assert "waiting for the scheduler" in text
        assert "scheduler has not answered" in text
    (run,) = [one for one in operator.get("/api/models/digits").json()["waiting"] if one["version"] == 902]
    assert (run["triggered_by"], run["told"]) == ("operator", "waiting for the scheduler")


def test_what_landed_unusable_says_why_and_what_to_do(airflow: AirflowSite, operator: httpx.Client) -> None:
    """On the overview, the model's page and the version's own, and no release of it is started."""
    land(airflow, MODEL, 903, ready=gzip.compress(b"{}"))

    def is_shown() -> bool:
        return "cannot be read: gzip" in operator.get("/models/digits").text

    wait_until(is_shown, "the model's page tells of the upload", 60)
    page = operator.get("/models/digits/versions/903")
    assert page.status_code == 200
    assert "uploaded, unusable" in page.text
    assert "without compression" in page.text
    unusable = operator.get("/api/models/digits").json()["unusable"]
    assert [one["blocks"] for one in unusable if one["version"] == 903] == [True]
    answer = _release(airflow, operator, 903)
    assert answer.status_code == 422
    assert "cannot be released" in answer.json()["detail"]

    def is_in_the_overview() -> bool:
        return "v903 uploaded, unusable" in operator.get("/").text

    wait_until(is_in_the_overview, "the overview tells of it", 60)


def test_the_header_says_which_parts_do_not_answer(operator: httpx.Client) -> None:
    """Here nothing but the API server and the store runs: Airflow's own parts have not answered."""

    def is_known() -> bool:
        return bool(operator.get("/api/health").json()["is_known"])

    wait_until(is_known, "each part was asked", 60)
    parts = operator.get("/api/health").json()["parts"]
    assert "has not answered" in parts["scheduler"]
    assert "has not answered" in parts["triggerer"]
    assert "has not answered" in parts["DAG processor"]
    assert parts["Airflow's database"] == ""
    assert parts["object store"] == ""
    assert parts["staging Triton"] != ""
    assert "scheduler has not answered" in operator.get("/calendar").text
