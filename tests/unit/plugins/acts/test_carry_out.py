"""An act that is carried out: what Airflow is asked for, and what becomes of it where Airflow answers with an error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from slipway.acts.carry_out import (
    Done,
    NameTakenError,
    OtherRunError,
    RunOverError,
    carry_out,
)
from slipway_core.acts.requests import ActInput, FailRun, request_of
from slipway_core.acts.table import ACTS
from slipway_core.errors import SlipwayError


class AnsweredError(SlipwayError):
    """Airflow's answer, of that status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Airflow answered {status}")
        self.status = status


class AirflowDouble:
    """Answers each request to start a run with the next of `statuses`, and remembers what was asked.

    :param runs: the runs that it knows.
    """

    def __init__(self, *statuses: int, runs: Sequence[Mapping[str, Any]] = ()) -> None:
        self._statuses = list(statuses)
        self.runs = list(runs)
        self.started: list[str | None] = []
        self.writes: list[tuple[str, ...]] = []

    async def get(self, *path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if params is None:
            return dict(next(run for run in self.runs if run["dag_run_id"] == path[-1]))
        prefix, states = params.get("run_id_prefix_pattern", ""), params.get("state")
        found = [
            run
            for run in self.runs
            if str(run["dag_run_id"]).startswith(prefix) and (states is None or run["state"] in states)
        ]
        first = params["offset"]
        return {"dag_runs": found[first : first + params["limit"]], "total_entries": len(found)}

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if path[-1] != "dagRuns":
            raise AnsweredError(500)
        self.started.append(body["dag_run_id"])
        self._answer()
        return {"dag_run_id": body["dag_run_id"] or "named-by-airflow"}

    async def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.writes.append(path)
        self._answer()
        return {}

    def status_of(self, error: SlipwayError) -> int:
        return error.status if isinstance(error, AnsweredError) else 0

    def _answer(self) -> None:
        status = self._statuses.pop(0) if self._statuses else 200
        if status >= 400:
            raise AnsweredError(status)


def run(run_id: str, state: str = "running", **conf: Any) -> dict[str, Any]:
    """Return a run as Airflow lists it."""
    return {"dag_run_id": run_id, "state": state, "conf": conf}


def do(airflow: AirflowDouble, name: str, nonce: str = "", **asked: Any) -> Done:
    """Carry an act on `digits` out, with a nonce as a form has one, or without as the command."""
    given = ActInput(model="digits", **asked)
    return asyncio.run(carry_out(airflow, ACTS[name], request_of(name, given), model="digits", nonce=nonce))


@pytest.mark.parametrize("nonce", ["c0ffee", ""], ids=["a form", "the command"])
@pytest.mark.parametrize(
    ("statuses", "became"),
    [((200,), "done"), ((500, 409), "asked_before"), ((500, 200), "done")],
    ids=["at once", "the first one had written it", "the first one had not"],
)
def test_a_run_is_asked_for_again_under_its_name_after_an_error_of_airflows_own(
    statuses: tuple[int, ...], became: str, nonce: str
) -> None:
    """Whether the first request wrote the run or not, the second says what is true: it is there, or it is new."""
    airflow = AirflowDouble(*statuses)
    done = do(airflow, "pause", nonce)
    assert done.became == became
    assert airflow.started == [done.run_id] * len(statuses)
    assert done.run_id == "digits-pause" + (f"-{nonce}" if nonce else "")


def test_a_form_that_is_sent_twice_finds_its_run() -> None:
    """Its nonce is in the run's name."""
    done = do(AirflowDouble(409), "pause", "c0ffee")
    assert (done.became, done.is_new, done.dag_id) == ("asked_before", False, "canary_pause")


def test_a_name_that_another_command_takes_meanwhile_is_looked_for_anew() -> None:
    """A few times: then the person is asked to try again."""
    airflow = AirflowDouble(409, 200)
    assert do(airflow, "pause").became == "done"
    with pytest.raises(NameTakenError):
        do(AirflowDouble(409, 409, 409), "pause")


@pytest.mark.parametrize(("statuses", "asked"), [((403,), 1), ((404,), 1), ((500, 500), 2), ((500, 403), 2)])
def test_what_airflow_refuses_is_an_error(statuses: tuple[int, ...], asked: int) -> None:
    """An act that is not allowed is asked for once; where Airflow fails twice, that is the answer."""
    airflow = AirflowDouble(*statuses)
    with pytest.raises(AnsweredError) as refused:
        do(airflow, "pause", "c0ffee")
    assert refused.value.status == statuses[-1]
    assert len(airflow.started) == asked


@pytest.mark.parametrize("nonce", ["c0ffee", ""], ids=["a form", "the command"])
@pytest.mark.parametrize(
    "found",
    [
        run("digits-2", "queued", model="digits", version=2),
        run("digits-2-1f0c3a9b", model="digits", version=2),
        run("digits-2-retry", model="digits", version=2),
        run("the second try", model="digits", version=2),
        run("digits-2-retry"),
        run("digits-2-retry", version="none"),
    ],
    ids=[
        "the plain name",
        "an upload",
        "a name of a person's",
        "any name",
        "no values",
        "values that say nothing",
    ],
)
def test_a_release_that_is_under_way_is_found_whatever_its_run_is_called(
    found: dict[str, Any], nonce: str
) -> None:
    """By the values of its form; where they name no release, by a name that a person may have given to another try."""
    airflow = AirflowDouble(runs=[found])
    done = do(airflow, "release", nonce, version=2)
    assert (done.became, done.run_id, airflow.started) == ("under_way", found["dag_run_id"], [])


@pytest.mark.parametrize("nonce", ["c0ffee", ""], ids=["a form", "the command"])
@pytest.mark.parametrize(
    ("found", "run_id"),
    [
        (run("digits-2", "failed", model="digits", version=2), "digits-2-2"),
        (run("digits-2-1", model="digits-2", version=1), "digits-2"),
        (run("digits-22", model="digits", version=22), "digits-2"),
        (run("digits-22"), "digits-2"),
        (run("digits-2-retry-of-anna"), "digits-2"),
    ],
    ids=["it has ended", "a model of that name", "another version", "no values", "another name"],
)
def test_a_run_about_something_else_holds_no_release_up(
    found: dict[str, Any], run_id: str, nonce: str
) -> None:
    """The next free name is taken."""
    airflow = AirflowDouble(runs=[found])
    done = do(airflow, "release", nonce, version=2)
    assert (done.became, airflow.started) == ("done", [run_id])


def test_two_pauses_may_be_under_way() -> None:
    """What is no release has the next number."""
    airflow = AirflowDouble(runs=[run("digits-pause", model="digits", action="pause")])
    assert do(airflow, "pause").run_id == "digits-pause-2"


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (run("digits-2", model="drift", version=2), OtherRunError),
        (run("digits-2"), OtherRunError),
        (run("digits-2", "success", model="digits", version=2), RunOverError),
    ],
    ids=["another model", "no model", "over"],
)
def test_an_abort_ends_no_other_run(found: dict[str, Any], error: type[SlipwayError]) -> None:
    """The run must be a release of the model that is under way."""
    airflow = AirflowDouble(runs=[found])
    with pytest.raises(error):
        do(airflow, "abort", release_id="digits-2", reason="wrong data")
    assert airflow.writes == []


def test_an_abort_goes_on_where_its_reason_cannot_be_left() -> None:
    """The run is marked as failed, whatever became of the words."""
    airflow = AirflowDouble(runs=[run("digits-2", model="digits", version=2)])
    request = FailRun("release", "digits-2", "wrong data")
    done = asyncio.run(carry_out(airflow, ACTS["abort"], request, model="digits"))
    assert done.became == "done"
    assert airflow.writes == [("dags", "model_release", "dagRuns", "digits-2")]
