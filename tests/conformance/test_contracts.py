"""Contract tests that the emulated API passes, against the real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.cluster.any_cluster import KUBECONFIG_VARIABLE
from tests.support.cluster.emulator import ROOT
from tests.support.conformance.control_plane import ADMIN
from tests.support.conformance.real_cluster import RealCluster

LIMIT_S = 240


@pytest.mark.parametrize(
    ("path", "chosen", "least"),
    [
        ("tests/contract/plugins/hooks/test_lease_hook.py", "", 16),
        # One of them restarts the emulator.
        ("tests/contract/sandbox/cluster/api/test_leases.py", "not outlive", 9),
    ],
)
def test_the_real_api_behaves_as_the_emulated_one(
    cluster: RealCluster, path: str, chosen: str, least: int
) -> None:
    """Leases and events: each contract test of these files passes unchanged."""
    cluster.new_namespace(name="models")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            path,
            "-q",
            "-k",
            chosen,
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ],
        cwd=ROOT,
        env={**os.environ, KUBECONFIG_VARIABLE: str(cluster.plane.kubeconfig(ADMIN))},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
