"""The workflow fleet_release: what runs when, and what its form asks for."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from tests.support.dags.workflows import FLEET, fill_in


def test_version_is_laid_in_place_before_any_server_is_asked(bag: DagBag) -> None:
    """Place, release, and a teardown that runs whatever became of the release."""
    dag = bag.dags[FLEET]
    assert set(dag.task_ids) == {"place", "release", "settle"}
    assert dag.get_task("release").upstream_task_ids == {"place"}
    settle = dag.get_task("settle")
    assert settle.is_teardown
    assert {"place", "release"} <= settle.upstream_task_ids
    assert dag.get_task("place").is_setup


def test_run_ends_as_the_release_does(bag: DagBag) -> None:
    """A release that was taken back leaves nothing to settle, and the run is no success by that."""
    assert not bag.dags[FLEET].get_task("settle").on_failure_fail_dagrun


def test_nothing_starts_it_but_a_person_or_another_dag(bag: DagBag) -> None:
    """It has no schedule."""
    assert not bag.dags[FLEET].timetable.can_be_scheduled


def test_settling_comes_before_other_work(bag: DagBag) -> None:
    """The way back waits behind no other task for a worker."""
    dag = bag.dags[FLEET]
    assert dag.get_task("settle").priority_weight > dag.get_task("release").priority_weight


@pytest.mark.parametrize("form", [{"fleet": "edge"}, {"version": 2}, {"fleet": "", "version": 2}])
def test_form_needs_fleet_and_version(bag: DagBag, form: dict[str, Any]) -> None:
    """Neither may be left out."""
    fill_in(bag.dags[FLEET], {"fleet": "edge", "version": 2})
    with pytest.raises(ParamValidationError):
        fill_in(bag.dags[FLEET], form)
