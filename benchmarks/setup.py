"""`setup_s`: how long `make setup` takes in a fresh copy of the project with empty caches."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figure, MeasureError
from benchmarks.sandbox import PROJECT_ROOT, copy_project, own_environment
from slipway_sandbox.host.images import IMAGES_VARIABLE
from slipway_sandbox.host.settings import MARKER, ROOT_VARIABLE

LIMIT_S = 1800


def measure() -> Figure:
    """Return seconds from `make setup` to its end, download and installation included."""
    if shutil.which("make") is None:
        raise MeasureError("`make` is not installed; expected it on PATH.")
    # Not the system's temporary folder, which may be small or in memory.
    bench = PROJECT_ROOT / ".sandbox" / "bench"
    bench.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=bench, prefix="setup-") as folder:
        project = Path(folder) / "project"
        copy_project(project)
        caches = {
            "UV_CACHE_DIR": f"{folder}/uv",
            "PIP_CACHE_DIR": f"{folder}/pip",
            "XDG_CACHE_HOME": f"{folder}/cache",
        }
        environment = own_environment(caches)
        for name in (
            ROOT_VARIABLE,
            IMAGES_VARIABLE,
            MARKER,
            "PYTHONPATH",
            "VIRTUAL_ENV",
            "MAKEFLAGS",
            "MAKELEVEL",
        ):
            environment.pop(name, None)
        began = time.monotonic()
        try:
            done = subprocess.run(
                ["make", "setup"],
                cwd=project,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MeasureError(f"`make setup` did not end within {LIMIT_S} s.") from error
        seconds = time.monotonic() - began
    if done.returncode != 0:
        raise MeasureError(
            f"`make setup` failed with exit code {done.returncode}; its end:\n{done.stdout[-2000:]}"
        )
    return Figure("setup_s", seconds, "s")
