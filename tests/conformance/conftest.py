"""The real cluster, started once for all tests, and InferenceServices in namespaces of their own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.conformance.build import WRAPPER_MODULES, built
from tests.support.conformance.real_cluster import RealCluster, start_real_cluster

if TYPE_CHECKING:
    from tests.support.conformance.rollouts import Rollouts

RUNS = Path(__file__).resolve().parents[2] / ".sandbox" / "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes recordings instead of comparing them."""
    parser.addoption(
        "--record", action="store_true", help="write tests/recordings/kubernetes/api-answers.jsonl anew"
    )


def pytest_report_header() -> list[str]:
    """Name what is real here, and what is not."""
    lines = ["conformance lane, real: "]
    for wrapper in WRAPPER_MODULES:
        found = built(wrapper)
        if found is None:
            return [f"conformance lane: {wrapper.name} is not built yet; `make conformance` builds it"]
        lines += [f"  {module} {version}" for module, version in sorted(found.versions.items())]
    return [
        *lines,
        "by hand: kubelets, ingress and Gateway controllers, and the scheduler but in test_placement.py;",
        "real Triton and Envoy in test_live_traffic.py and test_release.py, which has a real Airflow too;",
        "the pods of its releases are processes",
        "not here: the weights of HTTPRoutes, which KServe writes after 0.20 only: the emulator stands for them",
    ]


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """The real cluster. What it left is kept where a test failed."""
    folder = RUNS / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    began_s = time.monotonic()
    with ExitStack() as clean_up:
        running = start_real_cluster(folder, clean_up)
        capture = request.config.pluginmanager.getplugin("capturemanager")
        memory = running.processes.memory_mib()
        with capture.global_and_fixture_disabled():
            print(
                f"\nthe cluster is up in {time.monotonic() - began_s:.0f} s, {sum(memory.values())} MiB: {memory}"
            )
        yield running
        memory = running.processes.memory_mib()
        with capture.global_and_fixture_disabled():
            print(f"\nat the end {sum(memory.values())} MiB: {memory}")
        ended = running.processes.ended_by_themselves()
    if request.session.testsfailed or ended:
        print(f"logs: {folder / 'logs'}")
        shutil.rmtree(folder / "etcd", ignore_errors=True)
    else:
        shutil.rmtree(folder)
    assert not ended, f"programs that ended by themselves: {ended}; see {folder}"


@pytest.fixture
def knative(cluster: RealCluster) -> Iterator[Rollouts]:
    """An InferenceService to be, in Knative mode."""
    from tests.support.conformance.rollouts import rollouts

    with rollouts(cluster, "Knative") as made:
        yield made


@pytest.fixture
def standard(cluster: RealCluster) -> Iterator[Rollouts]:
    """An InferenceService to be, in Standard mode."""
    from tests.support.conformance.rollouts import rollouts

    with rollouts(cluster, "Standard") as made:
        yield made
