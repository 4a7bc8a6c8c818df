"""Run ids and notes in Airflow's own database, which an API server has."""

from __future__ import annotations

from airflow.models import DagRun
from airflow.models.dagrun import DagRunNote
from airflow.utils.session import create_session
from sqlalchemy import select

from slipway_core.acts import run_names
from slipway_core.operations.run_notes import merged


def free_run_id(dag_id: str, name: str) -> str:
    """Return the run id of the next run of that name."""
    taken = select(DagRun.run_id).where(
        DagRun.dag_id == dag_id, DagRun.run_id.startswith(name, autoescape=True)
    )
    with create_session() as session:
        return run_names.free_run_id(name, set(session.scalars(taken)))


def write_note(dag_id: str, run_id: str, note: str) -> None:
    """Add what a task says about its run to what people have written; a run that is gone has no note."""
    wanted = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    with create_session() as session:
        run = session.scalar(wanted)
        if run is None:
            return
        kept = session.get(DagRunNote, run.id, with_for_update=True)
        if kept is None:
            run.note = merged(None, note)
        else:
            # Whose note it is stays: the person's who wrote the first of it.
            kept.content = merged(kept.content, note)
