"""The Triton provider where there is no Slipway: its wheel in an environment of its own, and what runs there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template

PROVIDER = PROJECT_ROOT / "plugins" / "airflow_provider_triton"
UV = Path(sys.executable).with_name("uv")
PYTHON_VARIABLE = "SLIPWAY_PROVIDER_PYTHON"
"""The Python of an environment with another Airflow, which `make provider` has made."""
_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
# What is of this repository in the tests' own environment.
_OURS = ("slipway", "airflow_provider_triton", "__editable__")
_PROGRAMS = Path(__file__).parent
# Each task is a process that imports Airflow: a minute on a busy machine.
_PROGRAM_LIMIT_S = 900


def built_wheel(folder: Path) -> Path:
    """Build the provider's wheel from a copy of its folder and nothing else; return the wheel."""
    source, wheels = folder / "source", folder / "wheels"
    shutil.copytree(PROVIDER, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(wheels)],
        cwd=source,
        env=_without_project(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.glob("*.whl")
    return wheel


def installed_alone(folder: Path) -> Path:
    """Install the wheel into an environment without Slipway; return its Python.

    The libraries are those of the tests' own environment. With `SLIPWAY_PROVIDER_PYTHON` it is installed there.
    """
    given = os.environ.get(PYTHON_VARIABLE)
    python = Path(given) if given else _environment(folder)
    install = ["pip", "install", "--quiet", "--offline", "--no-deps", "--reinstall", "--python", python]
    done = subprocess.run(
        [UV, *install, built_wheel(folder)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return python


def _environment(folder: Path) -> Path:
    environment, libraries = folder / "environment", folder / "libraries"
    venv.create(environment, symlinks=True)
    libraries.mkdir()
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if not one.name.startswith(_OURS):
            (libraries / one.name).symlink_to(one)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (packages / "libraries.pth").write_text(f"{libraries}\n")
    return environment / "bin" / "python"


def run_alone(
    python: Path,
    home: Path,
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> tuple[Any, str]:
    """Run a program of this folder in such an environment; return the JSON behind `ANSWERS `, and all that it wrote.

    :param home: an empty folder, for AIRFLOW_HOME with a database of its own.
    :param program: the name of the file; it imports nothing of this repository but the provider.
    """
    dags = home / "dags"
    dags.mkdir()
    settings = {
        **_without_project(),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "180",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a key of the tests, which is long enough to sign with it: 64 bytes are",
        **(environment or {}),
    }
    shutil.copyfile(_PROGRAMS / program, home / program)
    if PYTHON_VARIABLE in os.environ:
        migrate = [python, "-m", "airflow", "db", "migrate"]
        subprocess.run(
            migrate, cwd=home, env=settings, capture_output=True, timeout=_PROGRAM_LIMIT_S, check=True
        )
    else:
        shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), home / "airflow.db")
    done = subprocess.run(
        [python, home / program, *arguments],
        cwd=home,
        env=settings,
        capture_output=True,
        text=True,
        timeout=_PROGRAM_LIMIT_S,
        check=False,
    )
    written = done.stdout + done.stderr
    print(written[-8000:])
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("ANSWERS ")]
    return json.loads(line.removeprefix("ANSWERS ")), written


def _without_project() -> dict[str, str]:
    """Return this process's environment without what leads to this repository."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "PYTHON", "SLIPWAY"))
    }
