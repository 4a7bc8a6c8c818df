"""An act as the command carries it out: what it finds under way, and what it does where Airflow fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow_api.fake_api import RUN
from tests.support.cli.calls import Call
from tests.support.cli.documents import document, view
from tests.support.cli.server import FakeSlipway


@pytest.fixture(autouse=True)
def digits(server: FakeSlipway) -> FakeSlipway:
    """A server on which version 3 of `digits` is in its canary."""
    server.models["digits"] = document()
    server.views["digits", 3] = view()
    return server


def test_a_release_under_a_name_of_a_persons_is_under_way_too(server: FakeSlipway, call: Call) -> None:
    """What it is about counts, as on the dashboard."""
    conf = {"model": "digits", "version": 4}
    server.runs["digits-4-retry"] = {**RUN, "dag_run_id": "digits-4-retry", "conf": conf}
    called = call("release", "digits", "4")
    assert (called.code, server.writes) == (1, [])
    assert "the run digits-4-retry is already" in called.err


def test_an_abort_ends_no_run_of_another_model(server: FakeSlipway, call: Call) -> None:
    """The run is looked at before it is marked, as on the dashboard."""
    server.runs["digits-3"] = {**RUN, "dag_run_id": "digits-3", "conf": {"model": "drift"}}
    called = call("abort", "digits", "-m", "wrong data set")
    assert (called.code, server.writes) == (1, [])
    assert "is not a release of digits" in called.err


@pytest.mark.parametrize("total", [2, None], ids=["more than are listed", "an unknown number"])
def test_an_abort_that_cannot_see_every_run_ends_none(
    server: FakeSlipway, call: Call, total: int | None
) -> None:
    """Without a document, the run must be the only one of the model: one that is not listed may be another."""
    server.stale = True
    listed = [{**RUN, "dag_run_id": "digits-3", "state": "running", "conf": {"model": "digits"}}]
    server.refusals["/dags/model_release/dagRuns"] = (200, {"dag_runs": listed, "total_entries": total})
    called = call("abort", "digits", "-m", "wrong data set")
    assert (called.code, server.writes) == (1, [])
    assert "too many releases under way to check them all" in called.err


def test_airflow_is_asked_once_more_after_an_error_of_its_own(
    server: FakeSlipway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same name, so that the run is started once."""
    airflow, statuses = server._airflow, [503]

    def failing(method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST" and statuses:
            return statuses.pop(), {"detail": "the database is locked"}
        return airflow(method, path, body)

    monkeypatch.setattr(server, "_airflow", failing)
    called = call("pause", "digits", "--no-wait")
    assert (called.code, called.err) == (0, "")
    assert [body["dag_run_id"] for _, _, body in server.writes] == ["digits-pause"] * 2
