"""Requests of seconds that are under way while a server of a fleet is given another version."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from slipway.fleet import Member, server_at
from slipway.fleet.server import FleetServer
from slipway.hooks.triton import TritonHook
from slipway_core.fleet.alias import LoadedVersion, loaded_version, version_name
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.fleet.servers import POLICY, digest
from tests.support.triton_provider.servers import running_triton, typed_connection
from tests.support.triton_provider.slow_model import SlowRequest, write_slow_model

pytestmark = pytest.mark.timeout(600)

UNDER_WAY_S = 16.0


def test_request_under_way_holds_up_neither_the_commit_nor_the_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alias is changed at once, and back; the request is answered by the version that it began with."""
    repository = tmp_path / "repository"
    first, second = (_version(repository, version) for version in (1, 2))
    with running_triton(repository, tmp_path / "log") as triton:
        connection = typed_connection(triton.ports.http, grpc_port=triton.ports.grpc)
        monkeypatch.setenv("AIRFLOW_CONN_SLOW", connection)
        settings = server_at("s0", LOOPBACK, triton.ports.http, grpc_port=triton.ports.grpc)
        server = FleetServer(Member("s0", settings), "slow", POLICY)
        for one in (first, second):
            asyncio.run(server.prepare(one))
        asyncio.run(server.commit(first, 30))
        before = asyncio.run(server.before())
        with SlowRequest(TritonHook("slow"), repository, UNDER_WAY_S) as request:
            began = time.monotonic()
            _soon(server.commit(second, 30))
            assert asyncio.run(server.serving()) == 2
            _soon(server.restore(before))
            assert asyncio.run(server.serving()) == 1
            _soon(server.commit(second, 30))
            assert time.monotonic() - began < UNDER_WAY_S
            assert request.answer is None
        assert request.answer == UNDER_WAY_S
        asyncio.run(server.require_committed(second, None))


def _version(repository: Path, version: int) -> LoadedVersion:
    config = from_pbtxt(write_slow_model(repository, version_name("slow", version), version))
    return loaded_version("slow", version, {"slow": {**config, "name": "slow"}}, digest(version))


def _soon(act: Awaitable[None]) -> None:
    """Carry out what takes milliseconds, and seconds where it waited for a request."""

    async def carried_out() -> None:
        await asyncio.wait_for(asyncio.ensure_future(act), UNDER_WAY_S / 4)

    asyncio.run(carried_out())
