"""This project as an installed provider: the metadata that its build makes, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template

_BUILD = (
    "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
)


def installed_metadata(folder: Path) -> Path:
    """Have the build backend write this project's metadata; return the folder to put on the path."""
    source, target = folder / "source", folder / "site"
    source.mkdir()
    target.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT_ROOT / name, source / name)
    for name in ("plugins", "include"):
        (source / name).symlink_to(PROJECT_ROOT / name)
    subprocess.run(
        [sys.executable, "-c", _BUILD, str(target)], cwd=source, check=True, capture_output=True, timeout=120
    )
    return target


def ask_airflow(folder: Path, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what an Airflow that has this project installed says; see `provider_program`."""
    shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), folder / "airflow.db")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    path = [installed_metadata(folder), PROJECT_ROOT / "include", PROJECT_ROOT / "plugins"]
    environment = kept | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a key of the tests, which is long enough to sign with it: 64 bytes are",
    }
    command = [sys.executable, "-m", "tests.support.triton_provider.provider_program", json.dumps(bodies)]
    done = subprocess.run(
        command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("ANSWERS "))
    # Airflow says there what it cannot use of a provider.
    found["log"] = done.stdout + done.stderr
    return found
