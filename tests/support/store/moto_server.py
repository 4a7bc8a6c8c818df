"""moto's server in a thread of this process; its conditional writes are made atomic, as S3's are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.object_store import answer_cheaply, make_conditional_writes_atomic


@contextmanager
def moto_server() -> Iterator[str]:
    """Yield the address of a server that has no bucket yet."""
    make_conditional_writes_atomic()
    answer_cheaply()
    server = ThreadedMotoServer(LOOPBACK, 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
