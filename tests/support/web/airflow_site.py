"""Airflow's real API server on loopback, with this project's plugin, users of each role, and moto's S3 behind it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import httpx

from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import access_token, database_template
from tests.support.store.connections import aws_connection
from tests.support.waiting import wait_until

PASSWORD = "a password of the tests"
ROLES = {"nobody": "", "viewer": "viewer", "operator": "user", "colleague": "op", "admin": "admin"}
"""Who can sign in: `nobody` is known to Airflow and has no role. A stranger is not signed in at all."""
START_LIMIT_S = 240  # a busy machine


@dataclass(frozen=True)
class AirflowSite:
    """A running API server.

    :param url: its address, without a slash at the end.
    :param bucket: the bucket that the pages read.
    :param store_endpoint: the address of the store.
    :param home: AIRFLOW_HOME, with `airflow.db`.
    :param environment: what the server was started with, for other `airflow` commands.
    :param pid: the server's process.
    """

    url: str
    bucket: str
    store_endpoint: str
    home: Path
    environment: dict[str, str]
    pid: int

    @property
    def dashboard(self) -> str:
        """Return the address of the dashboard, without a slash at the end."""
        return f"{self.url}/slipway"

    def client(self, role: str) -> httpx.Client:
        """Return a client of the dashboard with a bearer token: of `stranger`, or of one of `ROLES`."""
        headers = {}
        if role != "stranger":
            headers["Authorization"] = f"Bearer {access_token(self.url, role, PASSWORD)}"
        return httpx.Client(base_url=self.dashboard, headers=headers, timeout=60)


@contextmanager
def airflow_site(folder: Path, store_endpoint: str, bucket: str, **options: str) -> Iterator[AirflowSite]:
    """Run the API server while the context lasts.

    :param folder: an empty folder for AIRFLOW_HOME and the log.
    :param options: more of Airflow's configuration, as environment variables.
    """
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    environment = _environment(folder, url, store_endpoint, bucket) | options
    (folder / "passwords.json").write_text(json.dumps(dict.fromkeys(ROLES, PASSWORD)))
    shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), folder / "airflow.db")
    command = [sys.executable, "-m", "uvicorn", "airflow.api_fastapi.main:app"]
    command += ["--host", LOOPBACK, "--port", str(port), "--log-level", "warning"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until(
            lambda: _answers(server, url), f"Airflow's API server listens; see {log.name}", START_LIMIT_S
        )
        yield AirflowSite(url, bucket, store_endpoint, folder, environment, server.pid)
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(60)


def _answers(server: subprocess.Popen[bytes], url: str) -> bool:
    assert server.poll() is None, "Airflow's API server has ended"
    try:
        with urlopen(f"{url}/api/v2/version", timeout=5):
            return True
    except (URLError, OSError):
        return False


def _environment(home: Path, url: str, store_endpoint: str, bucket: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    users = ",".join(f"{name}:{role}" for name, role in ROLES.items())
    return kept | {
        "PYTHONPATH": f"{PROJECT_ROOT / 'include'}:{PROJECT_ROOT / 'plugins'}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT_ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_ROOT / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": "a key of the tests, 32 bytes long",
        "AIRFLOW__API_AUTH__JWT_SECRET": "another key of the tests, which is long enough to sign with it, 64 bytes",
        "AIRFLOW_CONN_AWS_DEFAULT": aws_connection(store_endpoint),
        "AIRFLOW_VAR_SLIPWAY_BUCKET": bucket,
    }
