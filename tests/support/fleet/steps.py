"""What tests of a fleet of three servers look at, and how they disturb one."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Any

from slipway.fleet.server import FleetServer
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.fleet.document import FleetDocument
from tests.support.fleet.servers import FACTORS, TritonFleet

ALL = ("s0", "s1", "s2")


def on_all(version: int | None) -> dict[str, tuple[str, float] | None]:
    """Return what each server answers where all serve one version."""
    return dict.fromkeys(ALL, None if version is None else (str(version), FACTORS[version]))


def document(store: ModelStoreHook) -> FleetDocument:
    """Return what is kept of the fleet."""
    return FleetDocument.from_bytes(store.read("fleets/pair/fleet.json") or b"", "the document")


def before(step: str, act: Callable[[FleetServer], None]) -> Callable[..., Awaitable[None]]:
    """Return a method of a server that does something of the test's before what it is there for."""
    real = getattr(FleetServer, step)

    async def disturbed(self: FleetServer, *arguments: Any) -> None:
        act(self)
        await real(self, *arguments)

    return disturbed


def stopping_at(fleet: TritonFleet, name: str, step: str = "commit") -> Callable[..., Awaitable[None]]:
    """Return a server's method at which one server is stopped (SIGSTOP): it is asked, and does not answer."""

    def stop(server: FleetServer) -> None:
        if server.name == name:
            fleet.signal(name, signal.SIGSTOP)

    return before(step, stop)
