"""`demo_s`: how long the demo takes once everything is set up."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.figure import Figure, MeasureError
from benchmarks.sandbox import PROJECT_ROOT, own_environment

LIMIT_S = 1200


def measure() -> Figure:
    """Return seconds of the whole command, from starting a sandbox to having ended it again."""
    command = [sys.executable, "-m", "slipway_sandbox", "demo"]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=PROJECT_ROOT,
        env=own_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except BaseException as error:
        process.terminate()  # it puts its sandbox and its clients away
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise MeasureError(f"The demo did not end within {LIMIT_S} s.") from error
        raise
    seconds = time.monotonic() - began
    if process.returncode != 0:
        raise MeasureError(f"The demo failed with exit code {process.returncode}; its end:\n{output[-2000:]}")
    return Figure("demo_s", seconds, "s")
