"""A real Prometheus scrapes the plugin in Airflow's API application; nobody else than a reader is told anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from slipway_core.monitoring.families import FAMILIES
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import access_token
from tests.support.monitoring.prometheus import Prometheus, StartPrometheus
from tests.support.store.connections import aws_connection
from tests.support.waiting import wait_until
from tests.support.web.airflow_site import PASSWORD, AirflowSite

pytestmark = pytest.mark.timeout(600)

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
KNOWN = {family.name for family in FAMILIES}


def job(site: AirflowSite, token_file: Path) -> dict[str, Any]:
    """Return what docs/metrics-export.md has people write into prometheus.yml."""
    return {
        "job_name": "slipway",
        "metrics_path": "/slipway/metrics",
        "authorization": {"type": "Bearer", "credentials_file": str(token_file)},
        "static_configs": [{"targets": [urlsplit(site.url).netloc]}],
        "scrape_interval": "2s",
        "scrape_timeout": "2s",
    }


@pytest.fixture(autouse=True)
def readable(filled_site: AirflowSite) -> None:
    """Every model has its document: those of a new bucket are made when they are first asked for."""

    def is_readable() -> bool:
        text = filled_site.client("viewer").get("/metrics").text
        found = [line for line in text.splitlines() if line.startswith("slipway_model_readable")]
        return bool(found) and all(line.endswith(" 1.0") for line in found)

    wait_until(is_readable, "the documents of all models", 90)


@pytest.fixture
def prometheus(filled_site: AirflowSite, start_prometheus: StartPrometheus, tmp_path: Path) -> Prometheus:
    """A Prometheus that has the token of a viewer in a file."""
    token_file = tmp_path / "token"
    token_file.write_text(access_token(filled_site.url, "viewer", PASSWORD))
    return start_prometheus([job(filled_site, token_file)])


def scraped(series: str) -> str:
    """Return the query for the last values of series, which on a busy machine may be older than the last scrape."""
    return f"last_over_time({series}[5m])"


def test_prometheus_scrapes_a_viewers_numbers(filled_site: AirflowSite, prometheus: Prometheus) -> None:
    """Every series that the endpoint tells of is in Prometheus, and its target is up."""
    # What a watch wrote comes last: of a new bucket the first scrapes may tell less.
    prometheus.wait_for_series('slipway_evidence{model="digits"}')
    assert prometheus.count('max_over_time(up{job="slipway"}[5m]) == 1') == 1
    (live,) = prometheus.query(scraped('slipway_live_version{model="digits"}'))
    told = filled_site.client("viewer").get("/metrics", headers=OPENMETRICS).text
    families = {one.name: one for one in text_string_to_metric_families(told)}
    (expected,) = [
        one.value for one in families["slipway_live_version"].samples if one.labels["model"] == "digits"
    ]
    assert float(live["value"][1]) == expected
    names = {one.name for family in families.values() for one in family.samples}
    stored = {one["metric"]["__name__"] for one in prometheus.query(scraped('{__name__=~"slipway_.+"}'))}
    assert names == stored
    assert names <= KNOWN


def test_a_token_that_ended_makes_the_target_down(
    filled_site: AirflowSite, start_prometheus: StartPrometheus, tmp_path: Path
) -> None:
    """Prometheus says why: 401. With a new token in the file it goes on, and is not started again."""
    token_file = tmp_path / "token"
    token_file.write_text("made.up.token")
    prometheus = start_prometheus([job(filled_site, token_file)])
    prometheus.wait_for_series('up{job="slipway"} == 0')
    (target,) = prometheus.ask("targets")["activeTargets"]
    assert "401" in target["lastError"]
    token_file.write_text(access_token(filled_site.url, "viewer", PASSWORD))
    prometheus.wait_for_series('up{job="slipway"} == 1')


@pytest.mark.parametrize(("role", "status"), [("stranger", 401), ("nobody", 403)])
def test_who_may_not_read_is_told_nothing(filled_site: AirflowSite, role: str, status: int) -> None:
    """A program is not led to a login: it gets the status, and no number."""
    answer = filled_site.client(role).get("/metrics", headers=OPENMETRICS)
    assert answer.status_code == status
    assert "slipway_" not in answer.text
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_who_may_read_the_releases_may_read_the_numbers(filled_site: AirflowSite, role: str) -> None:
    """In OpenMetrics where it is asked for, in Prometheus' older text elsewhere; no cache keeps them."""
    answer = filled_site.client(role).get("/metrics", headers=OPENMETRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.headers["cache-control"] == "no-store"
    older = filled_site.client(role).get("/metrics")
    assert older.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_nobody_can_change_anything_there(filled_site: AirflowSite) -> None:
    """The endpoint only reads."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert filled_site.client("admin").request(method, "/metrics").status_code == 405


def program(site: AirflowSite, *arguments: str, endpoint: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program that writes the text file, as cron does."""
    environment = {
        **os.environ,
        **site.environment,
        "AIRFLOW_CONN_AWS_DEFAULT": aws_connection(endpoint or site.store_endpoint),
        "AWS_MAX_ATTEMPTS": "1",
    }
    command = [sys.executable, "-m", "slipway.monitoring", *arguments]
    return subprocess.run(
        command, env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_text_file_tells_what_the_endpoint_tells(filled_site: AirflowSite, tmp_path: Path) -> None:
    """Without Airflow's API: what is read is the bucket."""
    path = tmp_path / "slipway.prom"
    done = program(filled_site, "--bucket", filled_site.bucket, "--textfile", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    served = filled_site.client("viewer").get("/metrics").text
    assert series(path.read_text()) == series(served)


def test_a_text_file_stays_as_it_was_where_the_bucket_cannot_be_read(
    filled_site: AirflowSite, tmp_path: Path
) -> None:
    """Exit code 2, one line that says why, and numbers that grow old, which an alert notices."""
    path = tmp_path / "slipway.prom"
    path.write_text("what was\n")
    gone = program(filled_site, "--bucket", "no-such-bucket", "--textfile", str(path))
    assert gone.returncode == 2
    assert "no-such-bucket" in gone.stderr
    assert path.read_text() == "what was\n"
    wrong = program(filled_site, "--bucket", filled_site.bucket, "--textfile", str(tmp_path / "slipway.txt"))
    assert (wrong.returncode, ".prom" in wrong.stderr) == (2, True)


def series(text: str) -> set[str]:
    """Return the series of a text, without their values: times go on."""
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}


def test_a_client_of_the_api_learns_no_more_than_before(filled_site: AirflowSite) -> None:
    """The numbers name models and nobody: no person, no reason, no address."""
    text = filled_site.client("viewer").get("/metrics").text
    for secret in ('"ada"', "jonas", "s3://", "evidence/"):
        assert secret not in text
    assert httpx.get(f"{filled_site.dashboard}/metrics").status_code == 401
