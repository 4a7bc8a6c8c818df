"""Airflow's REST API, as far as the demo and the benchmarks need it: sign in, unpause, start a run, look.

What a script of a user's own would do, with Airflow's own client library; nothing here reaches into Airflow any other
way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_client.client import DAGPatchBody, DAGRunResponse, TriggerDAGRunPostBody

from slipway_airflow_api.access import Access
from slipway_airflow_api.client import ClientSession
from slipway_airflow_api.errors import NotThereError
from slipway_airflow_api.session import Session
from slipway_core.errors import TimedOutError

FINISHED_STATES = frozenset({"success", "failed"})

_IF_SILENT = "See whether the sandbox is up: python -m slipway_sandbox status"
_PATIENCE_S = 60.0
_POLL_S = 1.0


@dataclass(frozen=True)
class DagRun:
    """One run of a DAG: `state` is queued, running, success or failed; times are UTC, None until they come."""

    dag_id: str
    run_id: str
    state: str
    start: datetime | None
    end: datetime | None

    @property
    def is_finished(self) -> bool:
        """Whether the state is final."""
        return self.state in FINISHED_STATES

    @property
    def seconds(self) -> float | None:
        """From start to end; None while it runs."""
        return (self.end - self.start).total_seconds() if self.start and self.end else None


@dataclass(frozen=True)
class TaskRun:
    """One task of a run: `state` None until it is scheduled, `seconds` 0 until it ran."""

    task_id: str
    state: str | None
    seconds: float


class AirflowClient:
    """Talks to the API server at `base_url` as `user`; signs in at the first call and again when it must."""

    def __init__(self, base_url: str, user: str, password: str) -> None:
        access = Access(base_url, user, password, if_silent=_IF_SILENT)
        self._session = ClientSession(Session(access))
        self.dags, self.dag_runs, self.tasks = (
            self._session.dags,
            self._session.dag_runs,
            self._session.tasks,
        )
        self.ask = self._session.ask

    def unpause(self, dag_id: str, *, limit_s: float = _PATIENCE_S) -> None:
        """Let the scheduler run the DAG; wait up to `limit_s` seconds for the DAG to be parsed first.

        :raises TimedOutError: there is no such DAG.
        """
        deadline = time.monotonic() + limit_s
        unpaused = DAGPatchBody(is_paused=False)
        while True:
            try:
                self.ask(self.dags.patch_dag, dag_id, unpaused, update_mask=["is_paused"])
            except NotThereError as error:
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"the DAG {dag_id} is not known to Airflow",
                        expected=f"it parsed within {limit_s:.0f} s",
                        remedy="Look for import errors: the log of the DAG processor, or the UI's first page.",
                    ) from error
                time.sleep(_POLL_S)
            else:
                return

    def start_run(self, dag_id: str, conf: Mapping[str, Any], run_id: str | None = None) -> DagRun:
        """Start a run now with `conf`, under `run_id` or one that Airflow makes.

        :raises UserError: Airflow refuses it.
        """
        body = TriggerDAGRunPostBody(dag_run_id=run_id, logical_date=None, conf=dict(conf))
        return _dag_run(self.ask(self.dag_runs.trigger_dag_run, dag_id, body))

    def run(self, dag_id: str, run_id: str) -> DagRun | None:
        """Return the run as it is now; None if there is none of that id."""
        try:
            return _dag_run(self.ask(self.dag_runs.get_dag_run, dag_id, run_id))
        except NotThereError:
            return None

    def runs(self, dag_id: str) -> list[DagRun]:
        """Return the newest hundred runs of the DAG, newest first."""
        found = self.ask(self.dag_runs.get_dag_runs, dag_id, limit=100, order_by=["-run_after"])
        return [_dag_run(one) for one in found.dag_runs]

    def task_runs(self, dag_id: str, run_id: str) -> list[TaskRun]:
        """Return the tasks of a run, as they are now."""
        found = self.ask(self.tasks.get_task_instances, dag_id, run_id, limit=100)
        return [
            TaskRun(one.task_id, one.state.value if one.state else None, float(one.duration or 0.0))
            for one in found.task_instances
        ]


def _dag_run(one: DAGRunResponse) -> DagRun:
    return DagRun(one.dag_id, one.dag_run_id, one.state.value, one.start_date, one.end_date)
