"""Airflow's REST API, as far as the demo and the benchmarks need it: sign in, unpause, start a run, look.

What a script of a user's own would do, with Airflow's own client library; nothing here reaches into Airflow any other
way.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.error import HTTPError

from airflow_client.client import (
    ApiClient,
    Configuration,
    DAGApi,
    DAGPatchBody,
    DagRunApi,
    DAGRunResponse,
    TaskInstanceApi,
    TriggerDAGRunPostBody,
)
from airflow_client.client.exceptions import ApiException, ForbiddenException, UnauthorizedException
from urllib3.exceptions import HTTPError as TransportError

from include.model_release.errors import ServerUnavailableError, SlipwayError, TimedOutError, UserError
from include.sandbox.services.airflow import access_token

FINISHED_STATES = frozenset({"success", "failed"})

_REQUEST_TIMEOUT_S = 30.0
_PATIENCE_S = 60.0
_POLL_S = 1.0

Found = TypeVar("Found")


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
        self._base_url, self._user, self._password = base_url.rstrip("/"), user, password
        # What failed is told to the caller, who knows whether to try it again: the library does not.
        self._configuration = Configuration(host=self._base_url, retries=False)
        client = ApiClient(self._configuration)
        self.dags, self.dag_runs, self.tasks = DAGApi(client), DagRunApi(client), TaskInstanceApi(client)

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
        """Return the run as it is now; None where there is none of that id."""
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

    def ask(self, call: Callable[..., Found], *arguments: object, **options: object) -> Found:
        """Make a call of the library, signed in. A token that is no longer good is replaced once.

        :param call: a method of `dags`, `dag_runs` or `tasks`, to which the rest is given.
        :raises SlipwayError: Airflow refuses it, or does not answer.
        """
        what = f"{call.__name__} of {arguments[0]}"
        with self._errors(what):
            if self._configuration.access_token is not None:
                try:
                    return call(*arguments, **options, _request_timeout=_REQUEST_TIMEOUT_S)
                except (UnauthorizedException, ForbiddenException):
                    pass  # the server may have forgotten us
            self._configuration.access_token = access_token(
                self._base_url, self._user, self._password, _REQUEST_TIMEOUT_S
            )
            return call(*arguments, **options, _request_timeout=_REQUEST_TIMEOUT_S)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raise the project's errors in the place of the libraries'."""
        try:
            yield
        except HTTPError as error:
            with error:
                raise _error_for("the sign-in", error.code, error.read().decode(errors="replace")) from None
        except ApiException as error:
            raise _error_for(what, error.status, error.body or error.reason) from None
        except (OSError, http.client.HTTPException, TransportError, ValueError) as error:
            raise ServerUnavailableError(
                f"Airflow's API at {self._base_url} did not answer {what}",
                found=f"{type(error).__name__}: {error}",
                remedy="See whether the sandbox is up: python -m include.sandbox status",
            ) from error


class NotThereError(UserError):
    """The API knows no such thing (404)."""


class SignInRefusedError(UserError):
    """The API does not accept who we are (401 or 403)."""


def _error_for(what: str, status: int, content: str) -> SlipwayError:
    refused = f"Airflow refused {what}"
    found = f"{status} {_detail(content)}"
    if status == http.client.NOT_FOUND:
        return NotThereError(refused, found=found)
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return SignInRefusedError(refused, found=found, remedy="Check user name and password of the sandbox.")
    if status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS:
        return ServerUnavailableError(
            refused, found=found, remedy="Try again; then look at the API server's log."
        )
    return UserError(refused, found=found, remedy="Compare the request with the DAG's Params.")


def _detail(content: str) -> str:
    try:
        document = json.loads(content)
    except ValueError:
        return content[:300]
    detail = document.get("detail", document) if isinstance(document, dict) else document
    return (detail if isinstance(detail, str) else json.dumps(detail))[:300]


def _dag_run(one: DAGRunResponse) -> DagRun:
    return DagRun(one.dag_id, one.dag_run_id, one.state.value, one.start_date, one.end_date)
