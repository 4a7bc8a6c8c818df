"""Airflow's REST API, as the people of these tests use it."""

from __future__ import annotations

from typing import Any

from airflow_client.client import (
    ConnectionApi,
    ConnectionBody,
    DAGRunPatchBody,
    UpdateHITLDetailPayload,
)
from airflow_client.client.models.dag_run_mutable_states import DagRunMutableStates

from slipway_sandbox.demo.airflow_client import AirflowClient


class Airflow(AirflowClient):
    """The REST API, with what a person does in the UI beside starting a run."""

    def mark_failed(self, dag_id: str, run_id: str) -> None:
        """Mark the run as failed, as a person does to stop it."""
        body = DAGRunPatchBody(state=DagRunMutableStates.FAILED)
        self.ask(self.dag_runs.patch_dag_run, dag_id, run_id, body, update_mask=["state"])

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answer what a task asks of a person, as the UI's button does."""
        body = UpdateHITLDetailPayload(chosen_options=[option], params_input={})
        self.ask(self.tasks.update_hitl_detail, dag_id, run_id, task_id, -1, body)

    def make_connection(self, conn_id: str, *, conn_type: str = "http", **fields: Any) -> None:
        """Make a connection, as a person does in the UI.

        :param fields: host, port, password, extra.
        """
        body = ConnectionBody(connection_id=conn_id, conn_type=conn_type, **fields)
        self.ask(ConnectionApi(self.dags.api_client).post_connection, body)

    def task_pid(self, dag_id: str, run_id: str, task_id: str) -> int | None:
        """Return the process of a task that runs; None where none does."""
        found = self.ask(self.tasks.get_task_instances, dag_id, run_id, limit=100)
        return next(
            (
                one.pid
                for one in found.task_instances
                if one.task_id == task_id and one.pid and one.state and one.state.value == "running"
            ),
            None,
        )

    def task_tries(self, dag_id: str, run_id: str, task_id: str) -> int:
        """Return how often a task, or the most tried one of its mapped tasks, was tried."""
        found = self.ask(self.tasks.get_task_instances, dag_id, run_id, limit=100)
        return max(one.try_number for one in found.task_instances if one.task_id == task_id)

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """Return what Airflow's page shows of a task's log, as JSON: where it was read from stands first."""
        found = self.ask(
            self.tasks.get_log,
            dag_id,
            run_id,
            task_id,
            try_number,
            full_content=True,
            accept="application/json",
        )
        return str(found.to_json())

    def conf(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return what the run was started with."""
        return dict(self.ask(self.dag_runs.get_dag_run, dag_id, run_id).conf or {})

    def note(self, dag_id: str, run_id: str) -> str:
        """Return the run's note."""
        return self.ask(self.dag_runs.get_dag_run, dag_id, run_id).note or ""
