"""The plugin's file: every process of Airflow reads it, and few of them serve pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CODE = """
import json, sys
import slipway_plugin
views = slipway_plugin.SlipwayPlugin.external_views
print(json.dumps([[m for m in sys.modules if m.startswith("slipway.")], [one["href"] for one in views]]))
"""


# What Airflow is given at once, milliseconds to import, and what it asks of every installed provider.
LIGHT = {
    "slipway.page_addresses",
    "airflow_provider_triton.provider_info",
    "slipway.run_note",
    "slipway.web",
    "slipway.web.run_requests",
    "slipway.web.run_requests.middleware",
    "slipway.workflows",
}


def _told(home: Path, **variables: str) -> tuple[list[str], list[str]]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "AIRFLOW_HOME": str(home),
        **variables,
    }
    told = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    modules, addresses = json.loads(told.stdout.splitlines()[-1])
    return modules, addresses


def test_the_plugin_imports_none_of_its_pages(tmp_path: Path) -> None:
    """A task and a scheduler need nothing of them; the API server imports them with the first request."""
    modules, addresses = _told(tmp_path)
    assert set(modules) <= LIGHT
    assert addresses == ["/slipway/", "/slipway/runs/{DAG_ID}/{RUN_ID}"]


def test_the_pages_are_below_airflows_own_path(tmp_path: Path) -> None:
    """Where a proxy serves Airflow below a path, its entries lead there."""
    _, addresses = _told(tmp_path, AIRFLOW__API__BASE_URL="https://tools.example.com/airflow/")
    assert addresses[0] == "/airflow/slipway/"
