"""A real Envoy that a test starts, and the object that steers it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from include.sandbox.services.router import Router, envoy_argv
from include.sandbox.services.triton import end_with_parent


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
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ingress, admin = (one.getsockname()[1] for one in sockets)
    process = _started(envoy_argv(folder / "router", ingress, admin), folder / "envoy.log")
    try:
        router = Router(folder / "router", f"http://127.0.0.1:{admin}")
        await router.wait_ready()
        yield Envoy(router, ingress, admin)
    finally:
        process.terminate()
        process.wait(10)
