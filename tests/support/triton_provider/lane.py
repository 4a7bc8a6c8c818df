"""The Triton provider alone, with each Airflow that it says it works with.

    python -m tests.support.triton_provider.lane [AIRFLOW …]

makes for each a fresh environment from PyPI, as PyPI was on a day: an Airflow does not run with every later release of
what it needs. The provider's wheel is installed there, and `LANE` run: Airflow knows the connection type, tests
connections to a real tritonserver, and runs the example DAG against one. Nothing of Slipway is in such an environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.triton_provider.alone import PYTHON_VARIABLE, UV, built_wheel

# Of each minor release of Airflow, the day: 3.2 does not run with pydantic 2.14.
VERSIONS = {"3.2": "2026-06-30", "3.3": "2026-11-20"}
LANE = ("test_provider.py", "test_replace_model.py")
TESTS = "tests/contract/triton_provider"
ENVIRONMENTS = PROJECT_ROOT / ".sandbox" / "provider"


def made_environment(airflow: str) -> Path:
    """Make an environment with an Airflow and what the provider's wheel asks for; return its Python.

    :param airflow: the version, such as ``3.2``.
    """
    folder = ENVIRONMENTS / f"airflow-{airflow}"
    python = folder / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    with tempfile.TemporaryDirectory() as building:
        wheel = built_wheel(Path(building))
        wanted = [f"apache-airflow=={airflow}.*", str(wheel)]
        install = ["install", "--quiet", "--python", python, "--exclude-newer", VERSIONS[airflow]]
        subprocess.run([UV, "pip", *install, *wanted], check=True)
    return python


def main(arguments: Sequence[str]) -> int:
    """Run the lane; return the first exit code that is not 0."""
    code = 0
    for airflow in arguments or VERSIONS:
        print(f"── Airflow {airflow}", flush=True)
        environment = {
            **os.environ,
            PYTHON_VARIABLE: str(made_environment(airflow)),
            "SLIPWAY_EXHAUSTIVE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", *(f"{TESTS}/{one}" for one in LANE)]
        code = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, check=False).returncode or code
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
