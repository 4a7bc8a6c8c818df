"""Runs that were started and are in no record yet, from Airflow's database, which an API server has.

The database is asked in a thread, and nobody waits for it longer than the limit.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from slipway.airflow_run import person_of_run
from slipway.read_model.answers import Answers, Known, Patience
from slipway.workflows import ADMIT_TASK, MODEL_RELEASE, MODEL_ROLLBACK
from slipway_core.errors import SlipwayError, UserError
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.read_model.stored import cut
from slipway_core.read_model.waiting import WaitingRun, waits_for

_RUNS_READ = 300
_PATIENCE = Patience(fresh_s=2.0, old_s=10.0, limit_s=2.0)


def read_waiting() -> tuple[WaitingRun, ...]:
    """Return the runs that have not been admitted, those first that were started first."""
    from airflow.models import DagModel, DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import select

    under_way = (DagRunState.QUEUED, DagRunState.RUNNING)
    wanted = (
        select(DagRun)
        .where(DagRun.dag_id.in_((MODEL_RELEASE, MODEL_ROLLBACK)), DagRun.state.in_(under_way))
        .order_by(DagRun.id)
        .limit(_RUNS_READ)
    )
    with create_session() as session:
        runs = list(session.scalars(wanted))
        if not runs:
            return ()
        paused = dict(
            session.execute(
                select(DagModel.dag_id, DagModel.is_paused).where(
                    DagModel.dag_id.in_((MODEL_RELEASE, MODEL_ROLLBACK))
                )
            ).all()
        )
        states = {
            (dag_id, run_id): str(state or "")
            for dag_id, run_id, state in session.execute(
                select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.state).where(
                    TaskInstance.task_id == ADMIT_TASK,
                    TaskInstance.dag_id.in_((MODEL_RELEASE, MODEL_ROLLBACK)),
                    TaskInstance.run_id.in_([run.run_id for run in runs]),
                )
            )
        }
        found = [
            _shown(run, states.get((run.dag_id, run.run_id), ""), is_paused=bool(paused.get(run.dag_id)))
            for run in runs
        ]
    return tuple(one for one in found if one is not None)


def _shown(run: object, admit_state: str, *, is_paused: bool) -> WaitingRun | None:
    """Return a run that waits; None: it was admitted, has failed, or names no model."""
    from airflow.models import DagRun

    assert isinstance(run, DagRun)  # noqa: S101 - for the type
    if admit_state in ("success", "failed", "upstream_failed", "skipped", "removed"):
        return None
    conf = run.conf if isinstance(run.conf, dict) else {}
    try:
        model = validate_model_name(conf.get("model"))
        version = None if conf.get("version") is None else parse_version(conf.get("version"))
    except UserError:
        return None  # its first task says what is wrong with it
    return WaitingRun(
        model=model,
        version=version,
        run_id=cut(run.run_id),
        is_rollback=run.dag_id == MODEL_ROLLBACK,
        since=run.queued_at or run.run_after,
        triggered_by=cut(person_of_run(run.triggering_user_name, run.run_type) or ""),
        status=waits_for(str(run.state), admit_state, str(run.note or ""), is_paused=is_paused),
    )


_answers: Answers[str, tuple[WaitingRun, ...]] = Answers(
    lambda _: read_waiting(), _PATIENCE, threading.BoundedSemaphore(2)
)


def known_waiting() -> Known[tuple[WaitingRun, ...]] | None:
    """Return the runs that wait; None: Airflow's database does not answer, and nothing is known of them."""
    try:
        return _answers.get("")
    except SlipwayError:
        return None


def waiting_of(model: str, recorded: Sequence[str] = ()) -> tuple[WaitingRun, ...]:
    """Return the runs of a model that wait.

    :param recorded: run ids of releases that the record knows.
    """
    known = known_waiting()
    runs = () if known is None else known.value
    return tuple(run for run in runs if run.model == model and run.run_id not in recorded)
