"""The measure of a fleet's window and the faults of its runs, on real tritonservers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.load import FleetLoad
from benchmarks.fleet.model import MODEL, trained
from benchmarks.fleet.servers import FleetServer
from benchmarks.fleet.window import mixed_version_window, unseen
from tests.support.fleet.naive import load, load_one_by_one, write_version
from tests.support.serving.triton_install import triton_install
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

NAMES = ("server_0", "server_1")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[FleetServer]]:
    """Two servers with version 1, each over a folder of its own."""
    model = trained()
    with ExitStack() as stack:
        found = []
        for name in NAMES:
            server = FleetServer(
                name, str(tmp_path / f"{name}-models"), triton_install(), tmp_path / name, {}
            )
            write_version(server, model, 1)
            stack.callback(server.stop)
            server.start()
            found.append(server)
        for server in found:
            server.wait_ready()
            load(server)
        yield found


def test_a_fleet_that_is_released_one_by_one_mixes_versions(
    servers: list[FleetServer], tmp_path: Path
) -> None:
    """The measure finds the window of a release that is no fleet's, and that no request failed."""
    model, answers = trained(), list[FleetAnswer]()
    with FleetLoad(servers, 40.0, tmp_path) as clients:

        def seen(server: str, version: int) -> bool:
            answers.extend(clients.new_answers())
            told = {one.protocol for one in answers if (one.server, one.version) == (server, version)}
            return told == {"http", "grpc"}

        for server in servers:
            wait_until(lambda name=server.name: seen(name, 1), f"{server.name} answers")  # type: ignore[misc]
            write_version(server, model, 2)
        first, last = NAMES
        changed_at = 0.0

        def between() -> None:
            nonlocal changed_at
            wait_until(lambda: seen(first, 2), "the first one has changed")
            changed_at = time.time()

        load_one_by_one(servers, between)
        wait_until(lambda: seen(last, 2), "the last one has changed")
    assert unseen(answers, NAMES, 1, 2) == []
    assert [one for one in answers if one.error is not None or not one.tells_true] == []
    window = mixed_version_window(answers, 1, 2)
    old = max(one.received for one in answers if one.server == last and one.version == 1)
    new = min(one.received for one in answers if one.server == first and one.version == 2)
    assert new < changed_at
    assert window.answered_ms == pytest.approx(1000 * (old - new))
    assert window.answered_ms > 0
    assert window.at_most_ms is not None
    assert window.at_most_ms >= window.answered_ms


def test_a_load_without_memory_is_refused_and_the_server_serves_on(servers: list[FleetServer]) -> None:
    """The kernel refuses memory to the model's process; with memory the same load succeeds."""
    server, model = servers[0], trained()
    server.limit_memory()
    write_version(server, model, 2)
    with pytest.raises(OSError, match="400"):
        load(server)
    assert server.loaded() == {MODEL: [1]}
    server.free_memory()
    load(server)
    assert 2 in server.loaded()[MODEL]


def test_a_stalled_server_does_not_answer_until_it_goes_on(servers: list[FleetServer]) -> None:
    """It hangs, which is worse than a server that is dead, and goes on where it was."""
    server = servers[0]
    server.stall()
    assert server.process is not None
    assert not server.process.is_ready(timeout_s=0.5)
    server.resume()
    assert server.loaded() == {MODEL: [1]}


def test_a_killed_server_comes_back_empty_on_its_ports(servers: list[FleetServer]) -> None:
    """Nobody has loaded anything there; the other one serves on."""
    server, other = servers
    server.kill()
    assert not server.is_alive
    server.start()
    server.wait_ready()
    assert (server.loaded(), other.loaded()) == ({}, {MODEL: [1]})
