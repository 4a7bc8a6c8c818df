"""The client for Airflow's REST API: signs in, asks, and says clearly what was refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway_airflow_api.errors import SignInRefusedError
from slipway_core.errors import ServerUnavailableError, TimedOutError, UserError
from slipway_sandbox.demo.airflow_client import AirflowClient
from tests.support.airflow_api.fake_api import RUN, TASK_INSTANCE, FakeApi, fake_api

DAG = {
    "dag_display_name": "model_release",
    "dag_id": "model_release",
    "file_token": "token",
    "fileloc": "model_release.py",
    "has_import_errors": False,
    "has_task_concurrency_limits": False,
    "is_backfillable": True,
    "is_paused": False,
    "is_stale": False,
    "max_active_tasks": 16,
    "max_consecutive_failed_dag_runs": 0,
    "owners": ["airflow"],
    "tags": [],
    "timetable_partitioned": False,
    "timetable_periodic": False,
}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server on loopback, ended with the test."""
    with fake_api() as fake:
        yield fake


def client_of(api: FakeApi, password: str = "right") -> AirflowClient:  # noqa: S107  the fake knows it
    return AirflowClient(api.url, "admin", password)


def test_a_run_is_started_with_its_conf(api: FakeApi) -> None:
    """Starting a run sends its conf, no logical date, and the id that is wanted."""
    conf = {"model": "digits", "version": 2}
    run = client_of(api).start_run("model_release", conf, "digits-2")
    assert api.calls == [
        (
            "POST",
            "/api/v2/dags/model_release/dagRuns",
            {"dag_run_id": "digits-2", "logical_date": None, "conf": conf},
        )
    ]
    assert (run.run_id, run.state, run.is_finished) == ("digits-2", "running", False)


def test_one_sign_in_serves_many_calls(api: FakeApi) -> None:
    """The token is kept from call to call."""
    client = client_of(api)
    client.run("model_release", "a")
    client.run("model_release", "b")
    assert api.sign_ins == 1


def test_a_token_that_is_no_longer_good_is_replaced(api: FakeApi) -> None:
    """A server that forgot us is told again who we are, once."""
    client = client_of(api)
    client.run("model_release", "a")
    api.valid_token = "another"
    assert client.run("model_release", "a") is not None
    assert api.sign_ins == 2


def test_a_wrong_password_is_said_and_not_shown(api: FakeApi) -> None:
    """The error names what was refused; neither it nor the client's own form shows the password."""
    client = client_of(api, password="hunter2")
    with pytest.raises(SignInRefusedError, match="Invalid credentials") as caught:
        client.run("model_release", "a")
    assert "hunter2" not in f"{caught.value} {client!r}"


def test_an_id_with_odd_characters_is_quoted(api: FakeApi) -> None:
    """Run ids such as Airflow's own, with colons and plus signs, arrive whole."""
    client_of(api).run("model_release", "manual__2026-01-01T00:00:00+00:00/x")
    assert api.calls[0][1].endswith("/dagRuns/manual__2026-01-01T00%3A00%3A00%2B00%3A00%2Fx")


def test_a_run_that_is_not_there_is_none(api: FakeApi) -> None:
    """404 for a run is an answer, not an error."""
    api.reply = lambda *_: (404, {"detail": "not found"})
    assert client_of(api).run("model_release", "digits-9") is None


def test_a_refused_conf_is_the_callers_to_mend(api: FakeApi) -> None:
    """400 carries Airflow's own words."""
    api.reply = lambda *_: (400, {"detail": "Invalid input for param version: 'x' is not of type 'integer'"})
    with pytest.raises(UserError, match="Invalid input for param version"):
        client_of(api).start_run("model_release", {"version": "x"})


@pytest.mark.parametrize("status", [500, 503, 429])
def test_trouble_of_the_server_may_pass(api: FakeApi, status: int) -> None:
    """Server errors and throttling are told apart from what the caller did wrong."""
    api.reply = lambda *_: (status, {"detail": "busy"})
    with pytest.raises(ServerUnavailableError, match=str(status)):
        client_of(api).runs("model_release")


def test_nobody_listening_names_address_and_remedy() -> None:
    """A server that is down is named with what to do about it."""
    with pytest.raises(ServerUnavailableError, match=r"127\.0\.0\.1:1 .*status"):
        AirflowClient("http://127.0.0.1:1", "admin", "right").run("model_release", "a")


def test_unpausing_waits_for_the_dag_to_be_parsed(api: FakeApi) -> None:
    """A DAG that is not known yet is asked for again."""
    answers = iter([(404, {"detail": "not found"}), (200, DAG)])
    api.reply = lambda *_: next(answers)
    client_of(api).unpause("model_release")
    assert api.calls[-1] == (
        "PATCH",
        "/api/v2/dags/model_release?update_mask=is_paused",
        {"is_paused": False},
    )


def test_a_dag_that_never_comes_is_named(api: FakeApi) -> None:
    """Waiting ends with the name of the DAG and where to look."""
    api.reply = lambda *_: (404, {"detail": "not found"})
    with pytest.raises(TimedOutError, match=r"model_release.*import errors"):
        client_of(api).unpause("model_release", limit_s=0)


def test_seconds_are_counted_from_start_to_end(api: FakeApi) -> None:
    """A finished run knows how long it took; a running one does not yet."""
    finished = {**RUN, "state": "success", "end_date": "2026-01-02T03:04:15.500000Z"}
    api.reply = lambda *_: (200, {"dag_runs": [RUN, finished], "total_entries": 2})
    running, done = client_of(api).runs("model_release")
    assert running.seconds is None
    assert (done.seconds, done.is_finished) == (10.0, True)


def test_tasks_are_listed_with_their_seconds(api: FakeApi) -> None:
    """A task that has not run has taken no time."""
    api.reply = lambda *_: (
        200,
        {
            "task_instances": [
                {**TASK_INSTANCE, "task_id": "admit", "state": "success", "duration": 1.5},
                {**TASK_INSTANCE, "task_id": "convert", "state": None, "duration": None},
            ],
            "total_entries": 2,
        },
    )
    tasks = client_of(api).task_runs("model_release", "digits-2")
    assert [(task.task_id, task.state, task.seconds) for task in tasks] == [
        ("admit", "success", 1.5),
        ("convert", None, 0.0),
    ]
