"""Calls of Airflow's own client library, in a signed-in session."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from airflow_client.client import (
    ApiClient,
    Configuration,
    DAGApi,
    DagRunApi,
    TaskInstanceApi,
    XComApi,
)
from airflow_client.client.exceptions import ApiException, ForbiddenException, UnauthorizedException
from urllib3.exceptions import HTTPError as TransportError

from slipway_airflow_api.errors import error_for
from slipway_airflow_api.session import Session
from slipway_core.errors import ServerUnavailableError

Found = TypeVar("Found")


class ClientSession:
    """Makes calls of the library as the session's person. A token that is no longer good is replaced once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        access = session.access
        # Failures go to the caller, which knows whether to try again; the library doesn't.
        self._configuration = Configuration(
            host=access.base_url.rstrip("/"),
            retries=False,
            ssl_ca_cert=None if access.ca_file is None else str(access.ca_file),
        )
        self.client = ApiClient(self._configuration)
        self.dags, self.dag_runs = DAGApi(self.client), DagRunApi(self.client)
        self.tasks, self.xcoms = TaskInstanceApi(self.client), XComApi(self.client)

    def ask(self, call: Callable[..., Found], *arguments: object, **options: object) -> Found:
        """Make a call of the library, signed in.

        :param call: a method of one of the library's APIs, to which the rest is given.
        :raises SlipwayError: Airflow refuses it, or does not answer.
        """
        return self._ask(f"{call.__name__} of {arguments[0]}", call, *arguments, **options)

    def request(
        self,
        method: str,
        path: Sequence[str],
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Make a request that is given by its address, signed in.

        :param path: the parts of the address below `/api/v2/`.
        :param params: of its query; a list is given once for each of its values.
        :return: the answer's object; {} where it is invalid.
        :raises SlipwayError: Airflow refuses it, or does not answer.
        """
        address = "/".join(quote(part, safe="") for part in path)
        return self._ask(f"{method} {address}", self._request, method, f"/api/v2/{address}", params, body)

    def _request(
        self,
        method: str,
        address: str,
        params: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        *,
        _request_timeout: float,
    ) -> dict[str, Any]:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self._configuration.access_token}",
        }
        query = [
            (name, one)
            for name, value in (params or {}).items()
            for one in (value if isinstance(value, list) else [value])
        ]
        request = self.client.param_serialize(
            method, address, query_params=query, header_params=headers, body=body
        )
        answer = self.client.call_api(*request, _request_timeout=_request_timeout)
        answer.read()  # type: ignore[no-untyped-call]
        found: Any = self.client.response_deserialize(answer, {"default": "object"}).data
        return found if isinstance(found, dict) else {}

    def _ask(self, what: str, call: Callable[..., Found], *arguments: object, **options: object) -> Found:
        options["_request_timeout"] = self._session.access.timeout_s
        try:
            if self._configuration.access_token is not None:
                try:
                    return call(*arguments, **options)
                except (UnauthorizedException, ForbiddenException):
                    if not self._session.renew():
                        raise
            # Outside of the library: its errors are the project's already.
            self._configuration.access_token = self._session.token
            return call(*arguments, **options)
        except ApiException as error:
            raise error_for(what, error.status, error.body or error.reason or "") from None
        except (OSError, http.client.HTTPException, TransportError, ValueError) as error:
            raise ServerUnavailableError(
                f"Airflow's API at {self._session.access.base_url} did not answer {what}",
                found=f"{type(error).__name__}: {error}",
                remedy=self._session.access.if_silent,
            ) from error
