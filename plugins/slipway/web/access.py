"""Who asks, and what this person may see: Airflow decides both.

The person is known by Airflow's cookie or by a bearer token, as in Airflow's own API. Who may read the DAG
`model_release` may read the pages; who may read its audit log may read the audit.
"""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials

from slipway.workflows import MODEL_RELEASE


class StrangerError(Exception):
    """Nobody is signed in, or no longer."""


class NotPermittedError(Exception):
    """Who is signed in may not do this.

    :param what: what is missing, for the person: "may not read …".
    """


async def signed_in(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)] = None,
) -> BaseUser:
    """Return who asks.

    :raises StrangerError: nobody whom Airflow knows.
    """
    try:
        user = await get_user(request, None, bearer)
    except HTTPException as error:
        raise StrangerError from error
    request.state.slipway_person = user.get_name()
    return user


SignedIn = Annotated[BaseUser, Depends(signed_in)]


def may_read(request: Request, user: SignedIn) -> BaseUser:
    """Return who asks, and may read releases.

    :raises StrangerError: nobody whom Airflow knows.
    :raises NotPermittedError: Airflow does not let this person read the DAG `model_release`.
    """
    _ask(request, user, None, f"read the DAG {MODEL_RELEASE}")
    return user


def may_read_audit(request: Request, user: SignedIn) -> BaseUser:
    """Return who asks, and may read who did what.

    :raises StrangerError: nobody whom Airflow knows.
    :raises NotPermittedError: Airflow does not let this person read the audit log of the DAG `model_release`.
    """
    _ask(request, user, DagAccessEntity.AUDIT_LOG, f"read the audit log of the DAG {MODEL_RELEASE}")
    return user


Reader = Annotated[BaseUser, Depends(may_read)]


def _ask(request: Request, user: BaseUser, entity: DagAccessEntity | None, right: str) -> None:
    try:
        requires_access_dag("GET", entity, MODEL_RELEASE)(request, user)
    except HTTPException as error:
        raise NotPermittedError(right) from error
