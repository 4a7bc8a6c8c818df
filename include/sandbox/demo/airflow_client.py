"""Airflow's REST API, as far as the demo and the benchmarks need it: sign in, unpause, start a run, look.

What a script of a user's own would do; nothing here reaches into Airflow any other way.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from include.model_release.errors import ServerUnavailableError, SlipwayError, TimedOutError, UserError

FINISHED_STATES = frozenset({"success", "failed"})

_REQUEST_TIMEOUT_S = 30.0
_PATIENCE_S = 60.0
_POLL_S = 1.0


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


@dataclass
class AirflowClient:
    """Talks to the API server at `base_url` as `username`; signs in at the first call and again when it must."""

    base_url: str
    username: str
    password: str = field(repr=False)
    _token: str | None = field(default=None, init=False, repr=False)

    def unpause(self, dag_id: str, *, limit_s: float = _PATIENCE_S) -> None:
        """Let the scheduler run the DAG; waits up to `limit_s` seconds for the DAG to be parsed first.

        TimedOutError: there is no such DAG.
        """
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self._call(
                    "PATCH", f"/api/v2/dags/{_quoted(dag_id)}?update_mask=is_paused", {"is_paused": False}
                )
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
        """Start a run now with `conf`, under `run_id` or one that Airflow makes; UserError where it is refused."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        return _dag_run(self._call("POST", f"/api/v2/dags/{_quoted(dag_id)}/dagRuns", body))

    def run(self, dag_id: str, run_id: str) -> DagRun | None:
        """The run as it is now; None where there is none of that id."""
        try:
            return _dag_run(self._call("GET", f"/api/v2/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}"))
        except NotThereError:
            return None

    def runs(self, dag_id: str) -> list[DagRun]:
        """The newest hundred runs of the DAG, newest first."""
        answer = self._call("GET", f"/api/v2/dags/{_quoted(dag_id)}/dagRuns?limit=100&order_by=-run_after")
        return [_dag_run(entry) for entry in answer["dag_runs"]]

    def task_runs(self, dag_id: str, run_id: str) -> list[TaskRun]:
        """The tasks of a run, as they are now."""
        path = f"/api/v2/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}/taskInstances?limit=100"
        return [
            TaskRun(entry["task_id"], entry["state"], float(entry["duration"] or 0.0))
            for entry in self._call("GET", path)["task_instances"]
        ]

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One signed-in call. A token that is no longer good is replaced once."""
        if self._token is None:
            self._token = self._sign_in()
        try:
            return self._send(method, path, body, self._token)
        except SignInRefusedError:
            self._token = self._sign_in()
            return self._send(method, path, body, self._token)

    def _sign_in(self) -> str:
        answer = self._send(
            "POST", "/auth/token", {"username": self.username, "password": self.password}, None
        )
        return str(answer["access_token"])

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, token: str | None
    ) -> dict[str, Any]:
        request = urllib.request.Request(
            self.base_url.rstrip("/") + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        if token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S) as response:
                document: dict[str, Any] = json.load(response)
                return document
        except urllib.error.HTTPError as error:
            with error:
                raise _error_for(method, path, error.code, error.read()) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerUnavailableError(
                f"Airflow's API at {self.base_url} did not answer {method} {path}",
                found=f"{type(error).__name__}: {error}",
                remedy="See whether the sandbox is up: python -m include.sandbox status",
            ) from error


class NotThereError(UserError):
    """The API knows no such thing (404)."""


class SignInRefusedError(UserError):
    """The API does not accept who we are (401 or 403)."""


def _error_for(method: str, path: str, status: int, content: bytes) -> SlipwayError:
    what = f"Airflow refused {method} {path}"
    found = f"{status} {_detail(content)}"
    if status == http.client.NOT_FOUND:
        return NotThereError(what, found=found)
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return SignInRefusedError(what, found=found, remedy="Check user name and password of the sandbox.")
    if status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS:
        return ServerUnavailableError(
            what, found=found, remedy="Try again; then look at the API server's log."
        )
    return UserError(what, found=found, remedy="Compare the request with the DAG's Params.")


def _detail(content: bytes) -> str:
    try:
        document = json.loads(content)
    except ValueError:
        return content.decode(errors="replace")[:300]
    detail = document.get("detail", document) if isinstance(document, dict) else document
    return (detail if isinstance(detail, str) else json.dumps(detail))[:300]


def _dag_run(entry: Mapping[str, Any]) -> DagRun:
    return DagRun(
        dag_id=entry["dag_id"],
        run_id=entry["dag_run_id"],
        state=entry["state"],
        start=_time(entry.get("start_date")),
        end=_time(entry.get("end_date")),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _quoted(identifier: str) -> str:
    return urllib.parse.quote(identifier, safe="")
