"""The lane of the cluster with a node: the demo, played once for all its tests. It is not part of CI.

Where something is missing it says so and ends with exit code 3.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console

from slipway_sandbox.host.progress import Steps
from tests.support.cluster_demo.__main__ import FOLDER, RATE_RPS, prepare
from tests.support.cluster_demo.played import PlayedDemo
from tests.support.cluster_demo.running import running_demo
from tests.support.cluster_demo.story import play
from tests.support.conformance.build import BuildError
from tests.support.containers.engine import NoEngineError


@pytest.fixture(scope="session")
def demo(request: pytest.FixtureRequest) -> Iterator[PlayedDemo]:
    """The whole demo."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        console = Console(highlight=False)
        steps = Steps(console)
        try:
            programs = prepare(console, steps)
        except (BuildError, NoEngineError) as error:
            pytest.exit(str(error), returncode=3)
        with (
            running_demo(FOLDER, programs, steps) as running,
            running.clients(RATE_RPS, FOLDER / "traffic.jsonl") as clients,
        ):
            yield PlayedDemo(running, clients, play(running, clients, console))
