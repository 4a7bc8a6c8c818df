from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from slipway_sandbox import lifecycle
from slipway_sandbox.host.processes import SessionRecord, find_sandbox_processes
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import PROJECT_ROOT, SandboxSettings
from slipway_sandbox.host.supervise import Supervisor, session_file
from slipway_sandbox.services.airflow import read_health
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.nightly]

DAG = """
from airflow.sdk import dag, task

@dag(schedule=None)
def tiny():
    @task
    def answer() -> int:
        return 42
    answer()

tiny()
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A sandbox of its own, beside any that runs already; ended whatever the test does."""
    root = tmp_path / "sandbox"
    yield root
    lifecycle.down(root, quiet())


def quiet() -> Steps:
    return Steps(Console(quiet=True))


def start(root: Path) -> SandboxSettings:
    dags = root.parent / "dags"
    dags.mkdir(exist_ok=True)
    (dags / "tiny.py").write_text(DAG)
    return lifecycle.up(root, quiet(), dags)


def processes_of(root: Path) -> list[psutil.Process]:
    return find_sandbox_processes(root, SessionRecord.load(session_file(root)))


def listening(settings: SandboxSettings) -> set[int]:
    """Which of the sandbox's ports somebody listens on."""
    ports = set(settings.ports.as_dict().values())
    return {c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN} & ports


def open_addresses(processes: list[psutil.Process]) -> set[str]:
    """The addresses on which processes listen, except those of the loopback interface."""
    found: set[str] = set()
    for process in processes:
        try:
            connections = process.net_connections("inet")
        except psutil.Error:
            continue
        found |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    # gRPC servers show an IPv4 address in its IPv6 form.
    return {address for address in found if not ip_address(address.removeprefix("::ffff:")).is_loopback}


def test_a_sandbox_comes_up_healthy_mends_itself_and_goes_down_whole(root: Path) -> None:
    """After `up` all parts are healthy, on loopback only, and stay so; after `down` no process and no port is left."""
    settings = start(root)
    assert_healthy(settings)
    assert open_addresses(processes_of(root)) == set()
    assert_second_up_changes_nothing(root, settings)
    assert_killed_part_comes_back(settings)

    ended = lifecycle.down(root, quiet())
    assert ended >= len(lifecycle.programs(settings))
    assert processes_of(root) == []
    assert listening(settings) == set()
    assert lifecycle.down(root, quiet()) == 0


def assert_healthy(settings: SandboxSettings) -> None:
    assert all(check() for check in lifecycle.program_checks(settings).values())
    health = read_health(settings)
    assert health is not None
    assert (health.is_healthy, health.dags, health.import_errors) == (True, 1, 0)
    # A release's comparer listens on the mirror's ports, and only while it compares.
    served = {port for name, port in settings.ports.as_dict().items() if not name.startswith("mirror")}
    assert listening(settings) == served


def assert_second_up_changes_nothing(root: Path, settings: SandboxSettings) -> None:
    before = {one.name: one.pid for one in Supervisor(settings).states()}
    assert start(root) == settings
    assert {one.name: one.pid for one in Supervisor(settings).states()} == before


def assert_killed_part_comes_back(settings: SandboxSettings) -> None:
    supervisor, is_ready = Supervisor(settings), lifecycle.program_checks(settings)["router"]
    router = next(one.pid for one in supervisor.states() if one.name == "router")
    os.kill(router, signal.SIGKILL)
    wait_until(
        lambda: router not in {one.pid for one in supervisor.states()} and is_ready(), "another router"
    )


def test_nothing_is_left_after_the_supervisor_was_killed(root: Path) -> None:
    """When the supervisor is killed with -9, `down` still ends everything that it had started."""
    settings = start(root)
    os.kill(Supervisor(settings).pid(), signal.SIGKILL)
    wait_until(lambda: not Supervisor(settings).is_alive(), "the supervisor's end")
    assert processes_of(root) != []
    lifecycle.down(root, quiet())
    assert processes_of(root) == []
    assert listening(settings) == set()


def test_a_sandbox_that_cannot_start_says_why_and_leaves_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a part keeps failing, `up` fails with its name and last words, and leaves nothing running."""
    folder = tmp_path / "without-images"
    folder.mkdir()
    (folder / "airflow-database").symlink_to(PROJECT_ROOT / ".sandbox" / "airflow-database")
    monkeypatch.setenv("SLIPWAY_IMAGES_DIR", str(folder / "images"))
    with pytest.raises(lifecycle.LifecycleError, match="staging-triton ended again and again"):
        start(root)
    assert processes_of(root) == []
