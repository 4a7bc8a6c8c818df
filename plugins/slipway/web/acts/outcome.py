"""What became of an act, as its run reports it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from slipway.airflow_run import person_of_run
from slipway.web.acts.airflow_api import AirflowApi, AirflowRefusedError
from slipway.workflows import WORKFLOWS, workflow_of

_TEXT_LIMIT = 2000


@dataclass(frozen=True)
class ActOutcome:
    """A run that an act has started, stopped or answered.

    :param state: Airflow's: `queued`, `running`, `success` or `failed`.
    :param message: the outcome in the workflow's own words; "" until it gives one.
    """

    dag_id: str
    run_id: str
    state: str
    by: str
    model: str
    version: int | None
    message: str

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.state in ("success", "failed")

    def as_json(self) -> dict[str, Any]:
        """Return it for a page's script."""
        return {**asdict(self), "is_over": self.is_over}


async def outcome_of(api: AirflowApi, dag_id: str, run_id: str) -> ActOutcome:
    """Return what is known of a run.

    :raises AirflowRefusedError: there is none, or the person may not see it.
    """
    run = await api.get("dags", dag_id, "dagRuns", run_id)
    conf = run.get("conf") or {}
    version = conf.get("version")
    state = str(run.get("state"))
    return ActOutcome(
        dag_id=dag_id,
        run_id=run_id,
        state=state,
        by=person_of_run(run.get("triggering_user_name"), run.get("run_type")) or "",
        model=str(conf.get("model") or ""),
        version=version if isinstance(version, int) else None,
        message=(await _result(api, dag_id, run_id) if state == "success" else "")
        or str(run.get("note") or ""),
    )


async def _result(api: AirflowApi, dag_id: str, run_id: str) -> str:
    """Return the sentence that the run's task has returned; "" where there is none, or who asks may not read it."""
    workflow = WORKFLOWS.get(workflow_of(dag_id))
    if workflow is None or not workflow.result_task:
        return ""
    try:
        found = await api.get(
            "dags",
            dag_id,
            "dagRuns",
            run_id,
            "taskInstances",
            workflow.result_task,
            "xcomEntries",
            "return_value",
        )
    except AirflowRefusedError:
        return ""
    value = found.get("value")
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""
