"""The list of a DAG's runs is complete, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from slipway.acts.run_list import MOST_RUNS, PAGE_RUNS, TooManyRunsError, UnusableAnswerError, runs_of
from slipway_core.errors import SlipwayError

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


class _Airflow:
    """Lists runs.

    :param answer: makes the answer to a request's parameters.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[Mapping[str, Any]] = []

    async def get(self, *path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        assert path == ("dags", "model_release", "dagRuns")
        assert params is not None
        self.asked.append(params)
        return self._answer(params)

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)

    async def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)

    def status_of(self, error: SlipwayError) -> int:
        raise AssertionError(error)


def _named(numbers: range) -> list[dict[str, Any]]:
    return [{"dag_run_id": f"digits-{number}"} for number in numbers]


def _listed(total: int, most: int = PAGE_RUNS) -> _Airflow:
    runs = _named(range(total))

    def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        first = params["offset"]
        return {"dag_runs": runs[first : first + min(most, params["limit"])], "total_entries": total}

    return _Airflow(answer)


def _read(airflow: _Airflow, **wanted: Any) -> list[str]:
    return [str(run["dag_run_id"]) for run in asyncio.run(runs_of(airflow, "model_release", **wanted))]


@pytest.mark.parametrize("total", [0, 1, PAGE_RUNS, PAGE_RUNS + 1, 5 * PAGE_RUNS])
@pytest.mark.parametrize("most", [PAGE_RUNS, 7], ids=["whole pages", "a server with smaller pages"])
def test_all_runs_are_found(total: int, most: int) -> None:
    """Each once and in their order, however many fit in a page."""
    airflow = _listed(total, most)
    assert _read(airflow, state=["running"]) == [run["dag_run_id"] for run in _named(range(total))]
    assert all(params["state"] == ["running"] for params in airflow.asked)


def test_a_run_that_ends_between_two_pages_hides_no_other() -> None:
    """The others move up by one place, and the next page overlaps the last one."""
    runs = _named(range(PAGE_RUNS + 50))

    def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        first, total = params["offset"], len(runs)
        page = runs[first : first + PAGE_RUNS]
        if first == 0:
            del runs[3]
        return {"dag_runs": page, "total_entries": total}

    assert f"digits-{PAGE_RUNS}" in _read(_Airflow(answer))


@pytest.mark.parametrize("key", ["dag_runs", "total_entries"])
def test_an_answer_without_its_list_is_not_taken_for_no_runs(key: str) -> None:
    """The error names what is missing."""
    whole = {"dag_runs": [], "total_entries": 0}
    airflow = _Airflow(lambda _: {name: value for name, value in whole.items() if name != key})
    with pytest.raises(UnusableAnswerError, match=f"no `{key}`"):
        _read(airflow)


@pytest.mark.parametrize(
    "answer",
    [{"dag_runs": {}, "total_entries": 0}, {"dag_runs": [], "total_entries": "0"}],
    ids=["no list", "no number"],
)
def test_an_answer_of_another_form_is_an_error(answer: dict[str, Any]) -> None:
    """It says which type was found."""
    with pytest.raises(UnusableAnswerError, match=r"found (dict|str)"):
        _read(_Airflow(lambda _: answer))


def test_more_runs_than_are_read_are_an_error() -> None:
    """Nothing is concluded from a part."""
    with pytest.raises(TooManyRunsError, match=f"at most {MOST_RUNS}"):
        _read(_listed(MOST_RUNS + 1))
