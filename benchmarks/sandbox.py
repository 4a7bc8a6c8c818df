"""A sandbox of the benchmarks' own, apart from the one a person may have up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.figure import MeasureError
from slipway_sandbox import lifecycle
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import PROJECT_ROOT, ROOT_VARIABLE, SandboxSettings, SettingsError
from slipway_sandbox.services.airflow import AirflowError

__all__ = ["PROJECT_ROOT", "SANDBOX_ROOT", "own_environment", "sandbox"]

SANDBOX_ROOT = PROJECT_ROOT / ".sandbox" / "bench" / "sandbox"


@contextmanager
def sandbox(dags_folder: Path | None = None) -> Iterator[SandboxSettings]:
    """Give a fresh sandbox with the DAGs of `dags_folder` (default: the project's), ended afterwards.

    MeasureError where it cannot be started or ended.
    """
    steps = Steps(Console(stderr=True, highlight=False))
    try:
        lifecycle.down(SANDBOX_ROOT, steps)
        settings = lifecycle.up(SANDBOX_ROOT, steps, dags_folder)
        try:
            yield settings
        finally:
            lifecycle.down(SANDBOX_ROOT, steps)
    except (lifecycle.LifecycleError, SettingsError, AirflowError) as error:
        raise MeasureError(str(error)) from error


def own_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a command that shall use the benchmarks' sandbox."""
    return {
        **os.environ,
        ROOT_VARIABLE: str(SANDBOX_ROOT),
        "PYTHONPATH": str(PROJECT_ROOT / "include"),
        **(extra or {}),
    }


def copy_project(target: Path) -> None:
    """Copy what a clone of the project holds: no environment, no sandbox, no caches, no history."""
    left_out = shutil.ignore_patterns(
        ".venv", ".sandbox", ".git", "__pycache__", ".*_cache", ".import_linter_cache"
    )
    shutil.copytree(PROJECT_ROOT, target, ignore=left_out, symlinks=True)
