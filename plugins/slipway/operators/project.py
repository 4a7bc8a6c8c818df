"""Which state of this project runs: what a manifest says of who published a version."""

from __future__ import annotations

import subprocess
import tomllib
from functools import cache
from pathlib import Path

from slipway.deployment.settings import text_of

COMMIT_VARIABLE = "SLIPWAY_COMMIT"
_ROOT = Path(__file__).parents[3]


@cache
def project_commit() -> str:
    """Return the git commit, with `-dirty` where files differ from it; empty where nobody knows.

    An image without git history says it by the variable `SLIPWAY_COMMIT`.
    """
    commit = text_of(COMMIT_VARIABLE)
    if commit:
        return commit
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@cache
def project_version() -> str:
    """Return the version in pyproject.toml; empty where that file is not beside the code."""
    try:
        project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["version"])
    except (OSError, ValueError, KeyError):
        return ""
