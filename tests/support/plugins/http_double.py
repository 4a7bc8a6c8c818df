"""A metrics endpoint that answers as a test wants it to: well, badly, slowly or not to the end."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from slipway_sandbox.host.ports import LOOPBACK
from tests.support.http_server import QuietHandler, in_thread


@dataclass(frozen=True)
class HttpRequest:
    """A request as it came in; `form` holds the fields of a POST, or of the query of a GET."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    form: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """An answer; with `drips` its body comes a byte at a time and never ends, with `waits` it never begins."""

    status: int = 200
    body: bytes | str = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    drips: bool = False
    waits: bool = False


@dataclass
class MetricsServer:
    """What listens on loopback at `port`, whom it answers how, and what it was asked."""

    port: int
    answer: Callable[[HttpRequest], Answer] = lambda asked: Answer()
    asked: list[HttpRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{LOOPBACK}:{self.port}"


@contextmanager
def metrics_server(*, tls: Path | None = None, client_ca: Path | None = None) -> Iterator[MetricsServer]:
    """A server on loopback, until the end of the block; what still drips then is cut off.

    `tls` is a file with certificate and key, `client_ca` whose certificates clients must show.
    """
    over = threading.Event()

    class Handler(QuietHandler):
        def respond(self) -> None:
            body = self.body()
            parts = urlsplit(self.path)
            fields = body.decode() if self.command == "POST" else parts.query
            asked = HttpRequest(self.command, parts.path, dict(self.headers), body, dict(parse_qsl(fields)))
            double.asked.append(asked)
            self._send(double.answer(asked))

        def _send(self, answer: Answer) -> None:
            content = answer.body.encode() if isinstance(answer.body, str) else answer.body
            if answer.waits:
                over.wait()
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(1_000_000 if answer.drips else len(content)))
            self.end_headers()
            try:
                while answer.drips and not over.wait(0.05):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                self.wfile.write(content)
            except OSError:
                pass  # the client has gone, as it should

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    double = MetricsServer(server.server_address[1])
    try:
        with in_thread(server):
            yield double
    finally:
        over.set()
