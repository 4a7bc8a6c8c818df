"""The workflow of tuning: in order, cleaned up whatever happened, one measurement at a time on staging."""

from __future__ import annotations

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from slipway.pools import STAGING_POOL
from slipway_core.spec.run_overrides import TUNING_PARAMETERS
from tests.support.dags.workflows import TUNING, ancestors, fill_in


def test_a_tuning_is_confirmed_before_anything_is_proposed(bag: DagBag) -> None:
    """The proposal comes after the search and the comparison; nothing starts it but a request."""
    dag = bag.dags[TUNING]
    assert ancestors(dag, "propose") == {"prepare", "search", "confirm"}
    assert dag.schedule is None


def test_no_trial_stays_on_staging_whatever_happened(bag: DagBag) -> None:
    """The trials are unloaded by a teardown, after every task that loads some."""
    dag = bag.dags[TUNING]
    assert dag.get_task("remove_trials").is_teardown
    assert {"prepare", "search", "confirm"} <= ancestors(dag, "remove_trials")


def test_what_measures_holds_the_staging_servers_slot(bag: DagBag) -> None:
    """Search and comparison wait for the benchmarks of releases, and these for them; one tuning at a time."""
    dag = bag.dags[TUNING]
    assert {one.task_id for one in dag.tasks if one.pool == STAGING_POOL.name} == {"search", "confirm"}
    assert dag.max_active_runs == 1


def test_the_form_takes_what_the_tasks_read(bag: DagBag) -> None:
    """A model is needed; without a version it is the live one; the rest may change the release file's `tuning`."""
    dag = bag.dags[TUNING]
    assert set(dag.params) == set(TUNING_PARAMETERS)
    fill_in(dag, {"model": "digits", "version": 1})
    fill_in(dag, {"model": "digits", "version": 1, "objective": "latency", "request_rate_rps": 100})
    fill_in(dag, {"model": "digits"})
    for form in ({"version": 1}, {"model": "digits", "version": 1, "objective": "luck"}):
        with pytest.raises(ParamValidationError):
            fill_in(dag, form)
