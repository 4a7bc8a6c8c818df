"""What a person may do, as Airflow's auth manager says; a page shows this answer, and Airflow asks again."""

from __future__ import annotations

from typing import Literal

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import HTTPException, Request

from slipway.workflows import dag_id_of
from slipway_core.acts.act import Act, Means

_ASKED: dict[Means, tuple[Literal["POST", "PUT"], DagAccessEntity]] = {
    "start_run": ("POST", DagAccessEntity.RUN),
    "fail_run": ("PUT", DagAccessEntity.RUN),
    "answer": ("PUT", DagAccessEntity.HITL_DETAIL),
}


def may(request: Request, user: BaseUser, act: Act, dag_id: str = "") -> bool:
    """Return whether Airflow lets this person do it.

    :param dag_id: of an answer, the workflow that asks.
    """
    method, entity = _ASKED[act.means]
    try:
        requires_access_dag(method, entity, dag_id_of(act.workflow) or dag_id)(request, user)
    except HTTPException:
        return False
    return True
