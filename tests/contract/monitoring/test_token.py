"""The program that renews Prometheus' token: against Airflow's real API, and a server in the place of the cluster's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from slipway_sandbox.host.ports import LOOPBACK
from tests.support.http_server import QuietHandler, http_server
from tests.support.monitoring.manifests import FOLDER
from tests.support.web.airflow_site import PASSWORD, AirflowSite

pytestmark = pytest.mark.timeout(600)

SECRET = "/api/v1/namespaces/monitoring/secrets/slipway-metrics-token"


@dataclass
class Cluster:
    """What the cluster's API was sent: path, headers and body of each PATCH."""

    url: str
    patches: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that takes patches."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            found.patches.append((self.path, dict(self.headers.items()), json.loads(self.body())))
            self.answer(200, b"{}")

    with http_server(Handler) as port:
        found = Cluster(f"http://{LOOPBACK}:{port}")
        yield found


def renew(
    folder: Path, airflow: str, cluster: Cluster, password: str = PASSWORD
) -> subprocess.CompletedProcess[str]:
    """Run the program as the CronJob does, with its files in a folder."""
    manifests = list(yaml.safe_load_all((FOLDER / "token.yaml").read_text(encoding="utf-8")))
    (program,) = (one["data"]["renew.py"] for one in manifests if one["kind"] == "ConfigMap")
    for name, text in {
        "renew.py": program,
        "username": "viewer\n",
        "password": password,
        "token": "the account's own token",
    }.items():
        (folder / name).write_text(text)
    environment = {
        "AIRFLOW_URL": airflow,
        "SECRET_URL": cluster.url + SECRET,
        "VIEWER_DIR": str(folder),
        "ACCOUNT_DIR": str(folder),
    }
    command = [sys.executable, "-I", str(folder / "renew.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_new_token_opens_the_numbers(filled_site: AirflowSite, cluster: Cluster, tmp_path: Path) -> None:
    """One patch of that Secret, by the pod's own account; what is printed has no secret in it."""
    done = renew(tmp_path, filled_site.url, cluster)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the token was renewed\n", "")
    ((path, headers, body),) = cluster.patches
    assert path == SECRET
    assert headers["Authorization"] == "Bearer the account's own token"
    assert headers["Content-Type"] == "application/merge-patch+json"
    token = body["stringData"].pop("token")
    assert body == {"stringData": {}}
    answer = httpx.get(
        f"{filled_site.dashboard}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60
    )
    assert answer.status_code == 200


def test_a_password_that_airflow_does_not_take_changes_nothing(
    filled_site: AirflowSite, cluster: Cluster, tmp_path: Path
) -> None:
    """The job fails and says why; the old token stays, and the password is not printed."""
    done = renew(tmp_path, filled_site.url, cluster, password="a wrong password")
    assert done.returncode == 1
    assert "401" in done.stderr
    assert "a wrong password" not in done.stderr + done.stdout
    assert cluster.patches == []
