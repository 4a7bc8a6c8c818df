"""Free ports: nobody listens on them, and no two who ask are given the same."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slipway_sandbox.host import ports
from slipway_sandbox.host.ports import LOOPBACK, free_port

ROOT = Path(__file__).resolve().parents[4]
ASKER = (
    "import sys\n"
    "from slipway_sandbox.host import ports\n"
    "ports.FREE_PORT_RANGE = range(20000, 20000 + 20)\n"
    "ports.TRIED = 20\n"
    "print(*(ports.free_port() for _ in range(8)), flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    forget()


def forget() -> None:
    """Let go what was kept from others."""
    while ports._kept:
        ports._kept.pop().close()


def narrow(monkeypatch: pytest.MonkeyPatch, *, to: int) -> None:
    """Leave one port to choose from."""
    monkeypatch.setattr(ports, "FREE_PORT_RANGE", range(to, to + 1))
    monkeypatch.setattr(ports, "TRIED", 1)


def test_a_server_can_listen_on_it() -> None:
    """What keeps the port from others does not keep it from the server."""
    with socket.create_server((LOOPBACK, free_port())) as server:
        assert server.getsockname()[1] in ports.FREE_PORT_RANGE


def test_processes_that_ask_at_once_are_given_different_ports() -> None:
    """Of twenty ports two processes take eight each, before anybody listens on one."""
    askers = [
        subprocess.Popen(
            [sys.executable, "-c", ASKER],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT / "include")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        lines = [asker.stdout.readline() for asker in askers if asker.stdout is not None]
    finally:
        for asker in askers:
            asker.communicate("", timeout=20)
    given = [port for line in lines for port in line.split()]
    assert len(given) == len(set(given)) == 16


def test_a_port_on_which_somebody_listens_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where it looked and what to do; nothing is kept of what was tried in vain."""
    with socket.create_server((LOOPBACK, free_port())) as server:
        narrow(monkeypatch, to=server.getsockname()[1])
        forget()
        with pytest.raises(
            OSError, match=r"No free port was found among 1 tried from \d+ .*End some servers"
        ):
            free_port()
        assert not ports._kept


def test_a_port_to_be_avoided_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox chooses its ports one after another, and some are named by a person."""
    port = free_port()
    forget()
    narrow(monkeypatch, to=port)
    with pytest.raises(OSError, match="No free port"):
        free_port(avoid={port})
    assert free_port() == port


def test_of_many_ports_the_first_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run asks for thousands; its sockets do not add up."""
    monkeypatch.setattr(ports, "KEPT", 3)
    given = [free_port() for _ in range(5)]
    assert [one.getsockname()[1] for one in ports._kept] == given[2:]
