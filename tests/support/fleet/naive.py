"""A release of a fleet as it is done without this project: one server after the other loads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.request import Request, urlopen

import onnx

from benchmarks.fleet.model import MODEL, config_of, version_of
from benchmarks.fleet.servers import FleetServer
from slipway_sandbox.host.ports import LOOPBACK

_LOAD_LIMIT_S = 60.0


def write_version(server: FleetServer, trained: onnx.ModelProto, version: int) -> None:
    """Lay a version into a server's repository, and pin it."""
    folder = Path(server.repository) / MODEL / str(version)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(version_of(trained, version))
    (Path(server.repository) / MODEL / "config.pbtxt").write_bytes(config_of(version))


def load(server: FleetServer) -> None:
    """Have a server load what its repository says now."""
    address = f"http://{LOOPBACK}:{server.ports.http}/v2/repository/models/{MODEL}/load"
    with urlopen(Request(address, data=json.dumps({}).encode()), timeout=_LOAD_LIMIT_S):
        pass


def load_one_by_one(servers: Sequence[FleetServer], between: Callable[[], None]) -> None:
    """Have each load; `between` is called after the first."""
    for place, server in enumerate(servers):
        load(server)
        if place == 0:
            between()
