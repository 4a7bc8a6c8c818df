"""Airflow's REST API, asked in this process with the rights of who asks us."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import Request

from slipway_core.errors import SlipwayError

AIRFLOW_APP = "slipway.airflow_app"
"""Under which key of a request's scope the application lies that this one is mounted in."""
_CREDENTIALS = ("authorization", "cookie")
_LIMIT_S = 30.0
# What Airflow's own names are made of: nothing that could lead to another address.
_NAME = re.compile(r"(?!\.+$)[\w.~:+-]{1,250}", re.ASCII)


class AirflowRefusedError(SlipwayError):
    """Airflow did not do what was asked of it.

    :param status: what it answered.
    """

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.status, self.what))


@dataclass(frozen=True)
class AirflowApi:
    """Airflow's REST API for one request of ours.

    :param request: what we are asked; its credentials, and no others, are shown to Airflow.
    """

    request: Request

    @property
    def secret(self) -> str:
        """What all API servers of this Airflow sign with."""
        return str(self._app.state.secret_key)

    @property
    def _app(self) -> Any:
        return self.request.scope[AIRFLOW_APP]

    async def get(self, *path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read something.

        :raises AirflowRefusedError: it is not there, or the person may not read it.
        """
        return await self._ask("GET", path, params=params)

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create something.

        :raises AirflowRefusedError: the person may not, or Airflow takes it for wrong.
        """
        return await self._ask("POST", path, body=body)

    async def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change something.

        :raises AirflowRefusedError: the person may not, or Airflow takes it for wrong.
        """
        return await self._ask("PATCH", path, body=body)

    def status_of(self, error: SlipwayError) -> int:
        """Return the status of the answer that an error stands for; 0: it stands for none of Airflow's."""
        return error.status if isinstance(error, AirflowRefusedError) else 0

    async def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        strange = next((part for part in path if not _NAME.fullmatch(part)), None)
        if strange is not None:
            raise AirflowRefusedError(404, f"Airflow has nothing named {strange[:60]!r}")
        shown = {name: value for name in _CREDENTIALS if (value := self.request.headers.get(name))}
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        base_url = f"{self.request.url.scheme}://{self.request.url.netloc}"
        async with httpx.AsyncClient(transport=transport, base_url=base_url, timeout=_LIMIT_S) as client:
            answer = await client.request(
                method,
                f"/api/v2/{'/'.join(path)}",
                params=params,
                json=body,
                headers=shown,
            )
        if answer.status_code >= 400:
            raise AirflowRefusedError(answer.status_code, _message(answer))
        found = answer.json()
        return found if isinstance(found, dict) else {}


def _message(answer: httpx.Response) -> str:
    """Return what Airflow says, in at most one short paragraph."""
    try:
        detail = answer.json().get("detail")
    except (ValueError, AttributeError):
        detail = None
    if isinstance(detail, list):
        detail = "; ".join(str(one.get("msg", one)) if isinstance(one, dict) else str(one) for one in detail)
    if isinstance(detail, dict):
        detail = detail.get("reason") or detail.get("message")
    return f"Airflow answered {answer.status_code}: {str(detail or answer.reason_phrase)[:500]}"
