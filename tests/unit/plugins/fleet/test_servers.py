"""All servers of a fleet at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from slipway.fleet import servers
from slipway.fleet.members import Member, StaticMembers, server_at
from slipway.fleet.server import Facts, FleetServer
from slipway.fleet.servers import FleetServers
from slipway_core.errors import TimedOutError
from slipway_core.fleet.golden import GoldenRequest
from slipway_core.fleet.policy import FleetPolicy
from slipway_sandbox.host.ports import LOOPBACK, free_port


class Hanging(StaticMembers):
    """Known at the first look; who asks again waits without an end."""

    looks = 0

    async def current(self) -> Sequence[Member]:
        """Return the servers once."""
        self.looks += 1
        if self.looks > 1:
            await asyncio.Event().wait()
        return await super().current()


class Emptied(StaticMembers):
    """Known at the first look; then the list is empty."""

    looks = 0

    async def current(self) -> Sequence[Member]:
        """Return the servers once."""
        self.looks += 1
        return await super().current() if self.looks == 1 else []


def test_empty_list_takes_no_server_out_of_the_fleet() -> None:
    """It is taken as one that could not be read: whoever is known is asked."""
    members = Emptied({"a": server_at("a", LOOPBACK, free_port())})
    fleet = FleetServers(members, "table", 2, None, FleetPolicy(call_limit_s=1))

    async def looks() -> None:
        assert set(await fleet.look("commit", {})) == {"a"}
        assert set(await fleet.look("back", {})) == {"a"}

    asyncio.run(asyncio.wait_for(looks(), 30))


def test_servers_that_are_known_are_looked_at_while_nobody_says_who_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Kubernetes API that hangs holds up a look for a moment only: commit and way back go on."""
    monkeypatch.setattr(servers, "_MEMBERS_LIMIT_S", 0.3)
    members = Hanging({"a": server_at("a", LOOPBACK, free_port())})
    fleet = FleetServers(members, "table", 2, None, FleetPolicy(call_limit_s=1))

    async def looks() -> None:
        assert set(await fleet.look("prepare", {})) == {"a"}
        began = time.monotonic()
        assert set(await fleet.look("back", {})) == {"a"}
        assert time.monotonic() - began < 10

    asyncio.run(asyncio.wait_for(looks(), 30))


def test_server_that_does_not_answer_in_time_does_not_answer_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time-out is trouble, which may pass; the server is not said to have given a different answer."""
    fleet = FleetServers(StaticMembers({}), "table", 2, None, FleetPolicy(call_limit_s=1))
    monkeypatch.setattr(FleetServers, "_target", property(lambda _: None))
    golden = GoldenRequest({"x": np.ones((1, 1), np.float32)}, ("y",))
    good = Facts("a" * 64, "b" * 64, {"y": np.ones((1, 1), np.float32)})

    class Server:
        away_s = None

        def __init__(self, name: str, facts: Facts | None) -> None:
            self.name, self._found = name, facts

        async def facts(self, *_: object) -> Facts:
            if self._found is None:
                raise TimedOutError("no answer within 60 s")
            return self._found

    fleet._servers = {
        name: cast(FleetServer, Server(name, facts)) for name, facts in (("a", good), ("b", None))
    }
    assert asyncio.run(fleet.act("verify", ["a", "b"], {}, golden)) is False
    assert fleet._refusals == {}
    assert "b verify" in fleet._trouble
