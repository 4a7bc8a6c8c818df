"""What Airflow says of runs: who started one, and whether the run that holds a model's lock is under way."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowRuntimeError

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import ReleaseLock
from slipway.workflows import ADMIT_TASK, STOP_REASON

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_REASON_LIMIT = 500
_BY_HAND = "manual"


def triggered_by(context: Context) -> str | None:
    """Return the name of the person who started the run; None where an event, a schedule or another run did."""
    dag_run = context.get("dag_run")
    kind = getattr(dag_run, "run_type", _BY_HAND)
    return person_of_run(getattr(dag_run, "triggering_user_name", None), kind)


def is_by_hand(context: Context) -> bool:
    """Return whether the run was asked for by hand, and not by an event, a schedule or another run."""
    kind = getattr(context.get("dag_run"), "run_type", _BY_HAND)
    return bool(getattr(kind, "value", kind) == _BY_HAND)


def person_of_run(name: object, run_type: object) -> str | None:
    """Return who started a run by hand.

    Airflow gives the runs of a `TriggerDagRunOperator` the name of who started the run that starts them, and those of a
    backfill that of who asked for it: nobody has asked for these one by one.
    """
    by_hand = getattr(run_type, "value", run_type) == _BY_HAND
    return str(name) if by_hand and name else None


def stop_reason(context: Context) -> str:
    """Return why a person has stopped the run, in that person's words; "": nobody has said it.

    What cannot be read is nothing: the task has more to do than to tell this.
    """
    try:
        reason = context["ti"].xcom_pull(task_ids=ADMIT_TASK, key=STOP_REASON)
    except Exception as error:  # Airflow's, of which there are many
        log.warning("the reason why the run was stopped could not be read: %s", error)
        return ""
    return " ".join(reason.split())[:_REASON_LIMIT] if isinstance(reason, str) else ""


def model_lock(store: ModelStoreHook, model: str, context: Context) -> ReleaseLock:
    """Return the model's lock; an owner is alive while its DAG run is."""

    return ReleaseLock(store, model, lambda owner: is_under_way(context, owner.dag_id, owner.release_id))


def is_under_way(context: Context, dag_id: str, run_id: str) -> bool:
    """Return whether a run is queued or running; one that Airflow has deleted is neither.

    :raises AirflowRuntimeError: Airflow does not say.
    """
    try:
        return context["ti"].get_dagrun_state(dag_id, run_id) in ("queued", "running")
    except AirflowRuntimeError as error:
        if is_missing_run(error):
            return False
        raise


def is_missing_run(error: AirflowRuntimeError) -> bool:
    """Return whether Airflow's API said that there is no such run: it was deleted, so it cannot be under way."""
    return (
        isinstance(error.error.detail, dict) and error.error.detail.get("status_code") == HTTPStatus.NOT_FOUND
    )
