"""Three real tritonservers as a fleet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fleet.servers import TritonFleet, running_fleet


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonFleet]:
    """The servers, for all tests of a file."""
    with running_fleet(tmp_path_factory.mktemp) as found:
        yield found


@pytest.fixture
def fleet(running: TritonFleet) -> Iterator[TritonFleet]:
    """The servers with nothing loaded."""
    running.unload_all()
    yield TritonFleet(running.servers)
    running.unload_all()
