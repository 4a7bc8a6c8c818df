"""Who waits for whom: the DAGs of this project under Airflow's own scheduler, on a metadata database, no task run."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow import settings
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select, update

import slipway_plugin
from slipway.pools import STAGING_POOL, make_missing_pools
from slipway_sandbox.host.child_process import program_path
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

RELEASE = "model_release"
BUNDLE = "slipway"
# The scheduler looks at so many runs in a loop: enough loops for all of them.
LOOPS = 8


def metadata() -> Path:
    """The file of Airflow's database, which nobody has open."""
    settings.engine.dispose()
    path = Path(str(settings.engine.url.database))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="module")
def with_dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metadata database in which this project's DAGs are, and nothing else."""
    shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), metadata())
    bag = DagBag(PROJECT_ROOT / "dags", bundle_path=PROJECT_ROOT / "dags", bundle_name=BUNDLE)
    assert not bag.import_errors
    with create_session() as session:
        session.add(DagBundleModel(name=BUNDLE))
        session.flush()
        sync_bag_to_db(bag, BUNDLE, None, session=session)
        session.execute(update(DagModel).values(is_paused=False))
    kept = tmp_path_factory.mktemp("database") / "with-dags.db"
    with sqlite3.connect(metadata()) as source, sqlite3.connect(kept) as copy:
        source.backup(copy)
    return kept


@pytest.fixture
def session(with_dags: Path) -> Iterator[Session]:
    """A session on a database of this test's own, with the pools that the scheduler makes."""
    path = metadata()
    for leftover in path.parent.glob(f"{path.name}-*"):
        leftover.unlink()
    shutil.copyfile(with_dags, path)
    make_missing_pools()
    with create_session() as one:
        yield one


@pytest.fixture
def scheduler() -> SchedulerJobRunner:
    """Airflow's scheduler with 32 workers that take tasks and run none."""
    executor = BaseExecutor(parallelism=32)
    return SchedulerJobRunner(job=Job(), executors=[executor])


def start(session: Session, model: str) -> DagRun:
    """A release of a model, as somebody has just asked for it."""
    dag: Any = SerializedDagModel.get_dag(RELEASE, session=session)
    now = datetime.now(UTC) - timedelta(seconds=1)
    run: DagRun = dag.create_dagrun(
        run_id=f"{model}-1",
        # Of tasks with one weight the scheduler takes the older run's.
        logical_date=now,
        data_interval=(now, now),
        run_after=now,
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST,
        conf={"model": "digits", "version": 1},
        state=DagRunState.QUEUED,
        session=session,
    )
    return run


def let_run(scheduler: SchedulerJobRunner, session: Session) -> None:
    """What the scheduler does to runs, until nothing more comes of it."""
    for _ in range(LOOPS):
        scheduler._start_queued_dagruns(session)
        session.flush()
        for run in list(DagRun.get_running_dag_runs_to_examine(session)):
            scheduler._schedule_dag_run(run, session)
        session.flush()


def queue(scheduler: SchedulerJobRunner, session: Session) -> list[tuple[str, str]]:
    """The tasks, by run and name, to which the scheduler gives a worker now."""
    found = scheduler._executable_task_instances_to_queued(max_tis=32, session=session)
    return [(one.run_id, one.task_id) for one in found]


def put(run: DagRun, session: Session, **states: TaskInstanceState) -> None:
    """Sets tasks by the last part of their names; what is not named has succeeded already."""
    for instance in run.get_task_instances(session=session):
        state = states.get(instance.task_id.rpartition(".")[2], TaskInstanceState.SUCCESS)
        instance.set_state(state, session=session)
    session.flush()


@pytest.mark.nightly
def test_fifty_releases_that_wait_for_a_person_hold_up_no_other(
    scheduler: SchedulerJobRunner, session: Session
) -> None:
    """All fifty are under way at once, and the release of a fifty-first model is given a worker at once."""
    waiting = [start(session, f"model{number}") for number in range(50)]
    let_run(scheduler, session)
    assert {run.state for run in waiting} == {DagRunState.RUNNING}
    for run in waiting:
        put(run, session, approve=TaskInstanceState.AWAITING_INPUT, shift_traffic=TaskInstanceState.DEFERRED)
    other = start(session, "other")
    let_run(scheduler, session)
    assert other.state == DagRunState.RUNNING
    assert (other.run_id, "admit") in queue(scheduler, session)


def test_one_models_queue_holds_up_no_other(scheduler: SchedulerJobRunner, session: Session) -> None:
    """Fifty releases that wait for a model's lock, in the triggerer, leave the workers to another model."""
    for number in range(50):
        run = start(session, f"queued{number}")
        let_run(scheduler, session) if number % 20 == 19 else None
        put(run, session, admit=TaskInstanceState.DEFERRED)
    other = start(session, "other")
    let_run(scheduler, session)
    assert (other.run_id, "admit") in queue(scheduler, session)


def test_the_way_back_comes_before_whatever_else_waits_for_a_worker(
    scheduler: SchedulerJobRunner, session: Session
) -> None:
    """Of fifty releases that begin and one that takes traffic back, the last gets the only worker."""
    for number in range(50):
        put(start(session, f"model{number}"), session, admit=TaskInstanceState.SCHEDULED)
    failing = start(session, "failing")
    put(failing, session, restore_stable=TaskInstanceState.SCHEDULED)
    for run in session.scalars(select(DagRun)):
        run.state = DagRunState.RUNNING
    session.flush()
    first = scheduler._executable_task_instances_to_queued(max_tis=1, session=session)
    assert [(one.run_id, one.task_id) for one in first] == [(failing.run_id, "rollout.restore_stable")]


def benchmarking(session: Session, model: str) -> Any:
    run = start(session, model)
    run.state = DagRunState.RUNNING
    put(run, session, benchmark=TaskInstanceState.SCHEDULED)
    return run.get_task_instance("staging.benchmark", session=session)


def test_one_benchmark_at_a_time_on_the_staging_server(
    scheduler: SchedulerJobRunner, session: Session
) -> None:
    """A second model's waits while the first runs, and while it waits for its pod in the triggerer."""
    first, second = benchmarking(session, "one"), benchmarking(session, "two")
    assert queue(scheduler, session) == [(first.run_id, "staging.benchmark")]
    for state in (TaskInstanceState.QUEUED, TaskInstanceState.RUNNING, TaskInstanceState.DEFERRED):
        first.set_state(state, session=session)
        session.flush()
        assert queue(scheduler, session) == []
    first.set_state(TaskInstanceState.SUCCESS, session=session)
    session.flush()
    assert queue(scheduler, session) == [(second.run_id, "staging.benchmark")]


def test_only_a_job_makes_pools(session: Session) -> None:
    """A task that starts has no database to write to, and tries nothing; a job makes what is missing."""
    Pool.delete_pool(STAGING_POOL.name, session=session)
    session.commit()
    slipway_plugin.on_starting(SimpleNamespace())
    assert Pool.get_pool(STAGING_POOL.name, session=session) is None
    session.commit()
    slipway_plugin.on_starting(Job())
    made = Pool.get_pool(STAGING_POOL.name, session=session)
    assert made is not None
    assert (made.slots, made.include_deferred) == (1, True)


def test_a_pool_that_is_there_is_left_as_it_is(session: Session) -> None:
    """Two slots, for two servers behind the connection, stay two when the scheduler starts again."""
    Pool.create_or_update_pool(STAGING_POOL.name, 2, "ours", True, session=session)
    session.commit()
    assert make_missing_pools() == []
    kept = Pool.get_pool(STAGING_POOL.name, session=session)
    assert kept is not None
    assert (kept.slots, kept.description) == (2, "ours")


def test_the_scheduler_makes_the_pools_when_it_starts(tmp_path: Path) -> None:
    """The program `airflow scheduler`, with this project's plugins folder, leaves the pool in its database."""
    database = tmp_path / "airflow.db"
    shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), database)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "none"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_ROOT / "plugins"),
        "PYTHONPATH": str(PROJECT_ROOT / "include"),
    }
    command = [program_path("airflow"), "scheduler", "--skip-serve-logs", "--num-runs", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(database) as connection:
        pools = connection.execute("select pool, slots, include_deferred from slot_pool").fetchall()
    assert (STAGING_POOL.name, 1, 1) in pools
