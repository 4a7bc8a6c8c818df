"""The workflow that notices new versions."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.dagbag import DagBag

from tests.support.dags.workflows import INTAKE, RELEASE

# --- intake ---


def test_intake_starts_by_event_and_by_schedule(bag: DagBag) -> None:
    """New versions come by the bucket's queue, and by a sweep on a schedule for those whose event was lost."""
    dag = bag.dags[INTAKE]
    schedule: Any = dag.schedule
    assert type(schedule).__name__ == "AssetOrTimeSchedule"
    assert [len(asset.watchers) for asset in schedule.asset_condition.objects] == [1]
    assert dag.max_active_runs != 1, "one active run at a time loses events"


def test_intake_keeps_what_it_has_learnt_with_the_watched_asset(bag: DagBag) -> None:
    """What sweeps have learnt is kept with the asset that has the watcher: one declared without it would lose it."""
    dag: Any = bag.dags[INTAKE]
    (asset,) = dag.schedule.asset_condition.objects
    assert [inlet is asset for inlet in dag.get_task("find_new_versions").inlets] == [True]


def test_intake_ends_before_airflow_ends_it(bag: DagBag) -> None:
    """The sweep's own limit leaves time to start what it has found."""
    task: Any = bag.dags[INTAKE].get_task("find_new_versions")
    assert task.limit_s + 60 < task.execution_timeout.total_seconds()


def test_intake_starts_each_version_once(bag: DagBag) -> None:
    """The release is started under a given run id, and a run that exists already is no failure."""
    task: Any = bag.dags[INTAKE].get_task("start_release")
    assert task.partial_kwargs["trigger_dag_id"] == RELEASE
    assert task.partial_kwargs["skip_when_already_exists"] is True


def test_start_of_a_release_waits_for_a_young_release_file(bag: DagBag) -> None:
    """It is tried again for minutes: that long the file may take to workers, and to Airflow's DAG processor."""
    task: Any = bag.dags[INTAKE].get_task("start_release")
    given = task.partial_kwargs
    assert given["retries"] * given["retry_delay"].total_seconds() >= 300
    assert given["retry_exponential_backoff"] is False
