"""A server that accepts connections, and never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from slipway_sandbox.host.ports import LOOPBACK


@contextmanager
def deaf_server() -> Iterator[str]:
    """Give HOST:PORT of a server that hangs, for as long as the block runs."""
    with socket.create_server((LOOPBACK, 0), backlog=64) as listening:
        host, port = listening.getsockname()
        yield f"{host}:{port}"
