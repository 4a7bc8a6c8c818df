"""The HTTP servers of tests: on loopback, in a thread, and gone when their block ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from types import MappingProxyType

from slipway_sandbox.host.ports import LOOPBACK

# `shutdown()` waits until the server looks again; the standard library's half a second is longer than most tests.
POLL_INTERVAL_S = 0.02


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that lets `respond` answer each request, and writes nothing into the output of the tests."""

    def respond(self) -> None:
        """Answer one request; `command` is its method."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.respond()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  the names http.server looks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def body(self) -> bytes:
        """Read the body of the request; empty where it has none."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(
        self,
        status: int,
        content: bytes,
        content_type: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Answer the request."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def in_thread(server: BaseServer) -> Iterator[None]:
    """Let a server serve while the block runs."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_INTERVAL_S,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Give the port of a server with this handler, that serves while the block runs."""
    server = ThreadingHTTPServer((LOOPBACK, 0), handler)
    with in_thread(server):
        yield server.server_port
