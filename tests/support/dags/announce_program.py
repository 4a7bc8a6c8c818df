"""Announces a release in a process of its own, on a new database, and lets Airflow's scheduler start who waits for it.

python -m tests.support.dags.announce_program RELEASES

RELEASES is a JSON list of release runs; the task is run once for each. Airflow's own scheduler then makes the runs of
the example `when_digits_is_live`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.asset import AssetEvent
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import prohibit_commit
from sqlalchemy import select, update

from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDERS = {
    "announcing": Path(__file__).with_name("announcing"),
    "examples": PROJECT_ROOT / "examples" / "dags",
}
WAITING = "when_digits_is_live"


def store_dags() -> None:
    """Write the DAGs to the database, as the DAG processor does, none of them paused."""
    for name, folder in FOLDERS.items():
        bag = DagBag(folder, bundle_path=folder, bundle_name=name)
        assert not bag.import_errors, bag.import_errors
        with create_session() as session:
            session.add(DagBundleModel(name=name))
            session.flush()
            sync_bag_to_db(bag, name, None, session=session)
            session.execute(update(DagModel).values(is_paused=False))


def announce(release: str) -> str:
    """Run the task; return how it ended."""
    folder = FOLDERS["announcing"]
    bag = DagBag(folder, bundle_path=folder, bundle_name="announcing")
    run = bag.dags["announce_alone"].test(run_conf={"release": release})
    (instance,) = run.get_task_instances()
    return str(instance.state)


def outcome(states: list[str]) -> dict[str, Any]:
    """Let the scheduler start who waits; return all that came of it."""
    scheduler = SchedulerJobRunner(job=Job(), executors=[BaseExecutor()])
    with create_session() as session:
        with prohibit_commit(session) as guard:
            scheduler._create_dagruns_for_dags(guard, session)
        events = [
            {"uri": event.asset.uri, "extra": event.extra}
            for event in session.scalars(select(AssetEvent).order_by(AssetEvent.id))
        ]
        runs = [
            [event.extra["version"] for event in run.consumed_asset_events]
            for run in session.scalars(select(DagRun).where(DagRun.dag_id == WAITING))
        ]
    return {"states": states, "events": events, "runs": runs}


if __name__ == "__main__":
    store_dags()
    print("FOUND " + json.dumps(outcome([announce(json.dumps(one)) for one in json.loads(sys.argv[1])])))
