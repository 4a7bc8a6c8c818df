"""A DAG with the task that announces a release, and nothing else."""

from __future__ import annotations

from airflow.sdk import Param, dag

from slipway.operators.operations.announce import AnnounceReleaseOperator


@dag(
    dag_id="announce_alone",
    schedule=None,
    catchup=False,
    params={"release": Param("null", type="string")},
)
def announce_alone() -> None:
    """One task."""
    AnnounceReleaseOperator(task_id="announce", release="{{ params.release }}")


announce_alone()
