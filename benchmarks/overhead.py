"""`overhead_per_task_s`: what a task of a release costs beyond its work, beside a task that has no work at all."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure, MeasureError
from benchmarks.sandbox import PROJECT_ROOT, sandbox
from slipway_core.errors import SlipwayError
from slipway_core.record.fold import fold
from slipway_digit_models.training import upload_training_artifacts
from slipway_sandbox.demo.airflow_client import AirflowClient, DagRun
from slipway_sandbox.demo.records import Records
from slipway_sandbox.host.settings import SandboxSettings
from slipway_sandbox.services.object_store import client

MODEL, VERSION = "digits", 1
RELEASE_DAG, CHAIN_DAG = "model_release", "empty_chain"
LIMIT_S = 600

_POLL_S = 0.5


def measure() -> Figure:
    """Return seconds a task: (time of a release - time inside its stages) / tasks, and the same of the empty chain.

    Both run on the same live scheduler, the chain first on its own, then the release.
    """
    try:
        with _dags_folder() as dags_folder, sandbox(dags_folder) as settings:
            airflow = AirflowClient(settings.airflow_url, settings.airflow_user, settings.airflow_password)
            chain_s = _chain_overhead_s(airflow)
            release_s = _release_overhead_s(airflow, settings)
    except SlipwayError as error:
        raise MeasureError(str(error)) from error
    return Figure("overhead_per_task_s", release_s, "s", "empty chain", chain_s)


@contextmanager
def _dags_folder() -> Iterator[Path]:
    """Give a folder with the project's DAG files and the chain."""
    with tempfile.TemporaryDirectory() as folder:
        dags = Path(folder) / "dags"
        dags.mkdir()
        for file in (PROJECT_ROOT / "dags").glob("*.py"):
            (dags / file.name).symlink_to(file)
        (dags / "empty_chain.py").symlink_to(Path(__file__).with_name("empty_chain.py"))
        yield dags


def _chain_overhead_s(airflow: AirflowClient) -> float:
    airflow.unpause(CHAIN_DAG)
    run = _finished(airflow, airflow.start_run(CHAIN_DAG, {}))
    return _seconds(run) / _tasks_that_ran(airflow, run)


def _release_overhead_s(airflow: AirflowClient, settings: SandboxSettings) -> float:
    s3 = client(settings, "s3")
    upload_training_artifacts(s3, settings.bucket, MODEL, VERSION)
    airflow.unpause(RELEASE_DAG)
    run = _finished(airflow, airflow.start_run(RELEASE_DAG, {"model": MODEL, "version": VERSION}))
    state = fold(Records(s3, settings.bucket).events(MODEL, VERSION))
    if state.outcome != "promoted":
        raise MeasureError(f"Expected the release to be promoted; found {state.outcome}: {state.reason}")
    in_stages_s = sum(stage.seconds or 0.0 for stage in state.stages)
    return (_seconds(run) - in_stages_s) / _tasks_that_ran(airflow, run)


def _finished(airflow: AirflowClient, run: DagRun) -> DagRun:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        now = airflow.run(run.dag_id, run.run_id)
        if now is not None and now.state == "success":
            return now
        if now is not None and now.is_finished:
            raise MeasureError(f"Run {run.run_id} of {run.dag_id} ended {now.state}; expected success.")
        time.sleep(_POLL_S)
    raise MeasureError(f"Run {run.run_id} of {run.dag_id} did not end within {LIMIT_S} s.")


def _seconds(run: DagRun) -> float:
    if run.seconds is None:
        raise MeasureError(f"Airflow does not say how long run {run.run_id} of {run.dag_id} took.")
    return run.seconds


def _tasks_that_ran(airflow: AirflowClient, run: DagRun) -> int:
    """Return how many tasks were started; those that were skipped cost nothing worth counting."""
    return sum(task.state == "success" for task in airflow.task_runs(run.dag_id, run.run_id))
