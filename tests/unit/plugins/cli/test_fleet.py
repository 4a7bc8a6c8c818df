"""The command that shows what the servers of a fleet serve."""

from __future__ import annotations

import json

from slipway_core.fleet.parity import ServerReport, parity_of
from tests.support.cli.calls import Call
from tests.support.cli.server import FakeSlipway

CONFIG, MANIFEST = "c" * 64, "d" * 64
ALIKE = """\
edge: version 7 of digits
SERVER  VERSION  CONFIG        MANIFEST      READY  PROBLEM
pod-a         7  cccccccccccc  dddddddddddd  yes
pod-b         7  cccccccccccc  dddddddddddd  no
"""


def report(server: str, version: int, *, is_ready: bool) -> ServerReport:
    """Return what a server says."""
    return ServerReport(
        server=server, version=version, config_sha256=CONFIG, manifest_sha256=MANIFEST, is_ready=is_ready
    )


def test_servers_that_are_alike(call: Call, server: FakeSlipway) -> None:
    """A line a server: version, digests, and whether it gets requests."""
    reports = [report("pod-a", 7, is_ready=True), report("pod-b", 7, is_ready=False)]
    server.fleets["edge"] = parity_of("edge", "digits", 7, reports)
    called = call("fleet", "status", "edge")
    assert called.code == 0, called.err
    assert [line.rstrip() for line in called.out.splitlines()] == ALIKE.splitlines()


def test_servers_that_differ_end_with_an_error(call: Call, server: FakeSlipway) -> None:
    """A script sees it by the exit code, and what differs is named."""
    reports = [report("pod-a", 7, is_ready=True), report("pod-b", 6, is_ready=True)]
    server.fleets["edge"] = parity_of("edge", "digits", 7, reports)
    called = call("fleet", "status", "edge", "-o", "json")
    assert called.code == 1
    assert json.loads(called.out)["agree"] is False
    assert "pod-b serves version 6, the fleet's version is 7" in called.err


def test_release_that_was_left_half_done_is_told(call: Call, server: FakeSlipway) -> None:
    """Servers that are alike may still have one behind them that is not over."""
    server.fleets["edge"] = parity_of(
        "edge",
        "digits",
        7,
        [report("pod-a", 7, is_ready=True)],
        open_release="edge-8-fleet, of version 8, in back",
    )
    called = call("fleet", "status", "edge")
    assert called.code == 0, called.err
    assert "left unfinished: edge-8-fleet, of version 8, in back" in called.out
