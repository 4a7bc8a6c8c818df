"""A DAG of tasks that do nothing, one after the other: what the scheduler itself costs for each task."""

from __future__ import annotations

from airflow.sdk import chain, dag, task

TASKS = 12


@dag(dag_id="empty_chain", schedule=None, catchup=False, tags=["benchmark"])
def empty_chain() -> None:
    """Each task is a process of its own, as every task is; an EmptyOperator would not even be started."""

    @task
    def nothing() -> None:
        """Do nothing."""

    chain(*(nothing.override(task_id=f"nothing_{number:02}")() for number in range(TASKS)))


empty_chain()
