"""The workflows in the database of a test's Airflow, its runs, and what asks its API as a browser does."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from slipway.web.acts.cross_site import make_token
from slipway_sandbox.services.airflow import access_token
from tests.support.web.airflow_site import PASSWORD, AirflowSite

RESERIALIZE_LIMIT_S = 240
_written: set[Path] = set()


def write_workflows(site: AirflowSite) -> None:
    """Write this project's DAGs into the database, as a DAG processor would; where they are there, do nothing."""
    if site.home in _written:
        return
    subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "reserialize"],
        env=site.environment,
        cwd=site.home,
        check=True,
        capture_output=True,
        timeout=RESERIALIZE_LIMIT_S,
    )
    _written.add(site.home)


def airflow_client(site: AirflowSite, role: str) -> httpx.Client:
    """Return a client of Airflow's own API."""
    headers = {"Authorization": f"Bearer {access_token(site.url, role, PASSWORD)}"}
    return httpx.Client(base_url=f"{site.url}/api/v2", headers=headers, timeout=60)


def unpause_workflows(site: AirflowSite) -> None:
    """Switch on what `write_workflows` has written: as they are created, workflows are paused."""
    with airflow_client(site, "admin") as client:
        client.patch(
            "/dags", params={"dag_id_pattern": "%", "limit": 100}, json={"is_paused": False}
        ).raise_for_status()


def browser_client(site: AirflowSite, role: str) -> httpx.Client:
    """Return a client that asks the dashboard as its own pages do in a browser: by the cookie, from the same origin."""
    headers = {"Origin": site.url, "Sec-Fetch-Site": "same-origin", "slipway-poll": "1"}
    cookies = {"_token": access_token(site.url, role, PASSWORD)}
    return httpx.Client(base_url=site.dashboard, headers=headers, cookies=cookies, timeout=60)


def form_token(site: AirflowSite, role: str) -> str:
    """Return what a form of a page made for this person holds."""
    return make_token(site.environment["AIRFLOW__API__SECRET_KEY"], role)


def runs_of(site: AirflowSite, dag_id: str) -> list[dict[str, Any]]:
    """Return the runs of a workflow, oldest first."""
    with airflow_client(site, "admin") as client:
        answer = client.get(f"/dags/{dag_id}/dagRuns", params={"order_by": "id"}).raise_for_status()
    return list(answer.json()["dag_runs"])


def end_run(site: AirflowSite, dag_id: str, run_id: str, state: str) -> None:
    """End a run as a scheduler would, of which there is none."""
    with closing(sqlite3.connect(site.home / "airflow.db", timeout=30)) as database, database:
        database.execute(
            "UPDATE dag_run SET state = ? WHERE dag_id = ? AND run_id = ?", (state, dag_id, run_id)
        )


_ASK = """
import sys, json
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select
asked = json.loads(sys.argv[1])
with create_session() as session:
    place = {name: asked[name] for name in ("dag_id", "run_id", "task_id")}
    task = session.scalars(select(TaskInstance).filter_by(**place)).one()
    task.state = "awaiting_input"
    session.add(HITLDetail(
        ti_id=task.id, options=["Approve", "Reject"], subject=asked["subject"], body=asked["body"], defaults=None,
        multiple=False, params={"comment": {"value": "", "description": None, "schema": {"type": "string"}}},
    ))
"""


def ask(site: AirflowSite, dag_id: str, run_id: str, task_id: str, *, subject: str, body: str) -> None:
    """Let a task of a run wait for a person, as its operator would."""
    asked = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "subject": subject, "body": body}
    subprocess.run(
        [sys.executable, "-c", _ASK, json.dumps(asked)],
        env=site.environment,
        cwd=site.home,
        check=True,
        timeout=RESERIALIZE_LIMIT_S,
    )


def start_run(site: AirflowSite, role: str, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
    """Start a run in Airflow itself, as a person."""
    body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
    with airflow_client(site, role) as client:
        client.post(f"/dags/{dag_id}/dagRuns", json=body).raise_for_status()
