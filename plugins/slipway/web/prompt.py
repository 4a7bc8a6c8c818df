"""What a webhook may cause: a run of `registry_sync` for each model with that registered model, and nothing else."""

from __future__ import annotations

import logging
from pathlib import Path

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagRunAlreadyExists
from airflow.models import Connection, DagRun
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select

from airflow_provider_triton.connection_fields import extra_of
from slipway.dag_header import releases_dir
from slipway.workflows import REGISTRY_SYNC
from slipway_core.errors import UserError
from slipway_core.identifiers import list_models
from slipway_core.spec.release_file import load_model_spec

log = logging.getLogger(__name__)

MLFLOW_CONN_ID = "mlflow_default"
SECRET_EXTRA = "webhook_secret"  # noqa: S105 - the name of a field


def webhook_secret() -> str:
    """Return what MLflow signs its webhooks with, from the connection's extra; empty where there is none."""
    try:
        # The SDK's would ask a task's supervisor, which the API server is not.
        connection = Connection.get_connection_from_secrets(MLFLOW_CONN_ID)  # noqa: AIR311
    except AirflowNotFoundException:
        return ""
    try:
        return str(extra_of(connection).get(SECRET_EXTRA) or "")
    except ValueError as error:
        log.warning("the connection %r is invalid, so no webhook is accepted: %s", MLFLOW_CONN_ID, error)
        return ""


def start_syncs(registered_model: str, delivery_id: str) -> list[str]:
    """Start a sync of each model with that registered model; return the runs' ids.

    A delivery that comes again starts nothing: its runs' ids exist. Nor does one for a model whose sync waits for its
    turn already: that one will see what this one reports.
    """
    started = []
    for model in _models_of(registered_model, releases_dir()):
        prefix = f"mlflow__{model}__"
        if _waits(prefix):
            log.info("a sync of %s is already waiting", model)
            continue
        try:
            trigger_dag(
                REGISTRY_SYNC,
                run_id=f"{prefix}{delivery_id}",
                conf={"model": model},
                triggered_by=DagRunTriggeredByType.REST_API,
            )
        except DagRunAlreadyExists:
            log.info("the delivery %s was received before", delivery_id)
            continue
        started.append(f"{prefix}{delivery_id}")
    return started


def _models_of(registered_model: str, folder: Path) -> list[str]:
    found = []
    for model in list_models(folder):
        try:
            registry = load_model_spec(folder, model).registry
        except UserError as error:
            log.warning("it is unknown whether %s has that registry: %s", model, error)
            continue
        if registry is not None and registry.mlflow.registered_model == registered_model:
            found.append(model)
    return found


def _waits(prefix: str) -> bool:
    waiting = select(DagRun.run_id).where(
        DagRun.dag_id == REGISTRY_SYNC,
        DagRun.state == DagRunState.QUEUED,
        DagRun.run_id.startswith(prefix, autoescape=True),
    )
    with create_session() as session:
        return session.scalar(waiting.limit(1)) is not None
