"""Ports of loopback for servers that listen a moment later."""

from __future__ import annotations

import errno
import random
import socket
from collections import deque
from collections.abc import Collection

from slipway_sandbox.host.preflight import port_is_free

LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing connections and for servers that leave the choice to
# it, so that none of them takes a port before its server listens.
FREE_PORT_RANGE = range(20000, 32000)
TRIED = 200
# As long as this many more are not taken, no other process that asks here is given the port.
KEPT = 100

_kept: deque[socket.socket] = deque()


def free_port(avoid: Collection[int] = ()) -> int:
    """Return a port of 127.0.0.1 that is free, not in `avoid`, and given to no other process that asks here.

    Between the answer and the moment at which a server listens another process may ask. So a UDP socket with the same
    number is kept: a server listens on TCP, and does not notice.

    :raises OSError: no port of some hundred that were tried is free
    """
    for port in random.sample(FREE_PORT_RANGE, k=TRIED):
        if port not in avoid and _keep(port):
            if port_is_free(port):
                return port
            _kept.pop().close()
    raise OSError(
        errno.EADDRINUSE,
        f"No free port was found among {TRIED} tried from {FREE_PORT_RANGE.start} to {FREE_PORT_RANGE.stop} "
        f"on {LOOPBACK}. End some servers",
    )


def _keep(port: int) -> bool:
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        return False
    _kept.append(holder)
    if len(_kept) > KEPT:
        _kept.popleft().close()
    return True
