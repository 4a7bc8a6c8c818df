"""A real Envoy that a test starts, and the object that steers it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from slipway_sandbox.host.ports import free_port
from slipway_sandbox.services.router import Router, envoy_argv
from slipway_sandbox.services.triton import end_with_parent

_ATTEMPTS = 3


@dataclass
class Envoy:
    """A running Envoy and the object that steers it."""

    router: Router
    ingress_port: int
    admin_port: int


def _started(argv: list[str], log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("wb") as log:
        return subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)


@asynccontextmanager
async def running_envoy(folder: Path) -> AsyncIterator[Envoy]:
    """A fresh Envoy that routes nothing yet, while the context lasts."""
    process, envoy = await _live_envoy(folder)
    try:
        yield envoy
    finally:
        _end(process)


async def _live_envoy(folder: Path) -> tuple[subprocess.Popen[bytes], Envoy]:
    """Start Envoy until one lives: a port that was free may be another process's by the time that Envoy listens."""
    for _ in range(_ATTEMPTS):
        ingress, admin = free_port(), free_port()
        router = Router(folder / "router", f"http://127.0.0.1:{admin}")
        process = _started(envoy_argv(folder / "router", ingress, admin), folder / "envoy.log")
        ready = asyncio.create_task(router.wait_ready())
        try:
            while not ready.done() and process.poll() is None:
                await asyncio.wait({ready}, timeout=0.05)
            if ready.done():
                await ready
                return process, Envoy(router, ingress, admin)
        except BaseException:
            _end(process)
            raise
        finally:
            ready.cancel()
    raise AssertionError(f"Envoy ended {_ATTEMPTS} times:\n{(folder / 'envoy.log').read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(60)
