"""A proxy between boto3 and an S3 that does to some requests what networks and S3 do to them."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from urllib.parse import urlsplit

from slipway_sandbox.host.ports import LOOPBACK
from tests.support.http_server import QuietHandler, in_thread

_ERRORS = {
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
    "409": (409, "ConditionalRequestConflict"),
    "bad digest": (400, "BadDigest"),
    "late error": (200, "InternalError"),
}
_KEPT = {"truncated": 0.5, "emptied": 0.0}
FAULTS = ("500", "503", "bad digest", "reset", "reset after", "truncated", "emptied", "corrupted")
"""`reset`: the connection breaks before S3 has the request; `reset after`: before its answer arrives. `truncated`,
`emptied` and `corrupted`: the answer's body ends early, before its first byte, or has another byte. The rest are
answers of S3. Copies know one more, `late error`: after the status 200 that S3 begins the answer to a long copy with.
"""


@dataclass
class Faults:
    """What happens to the next requests that match: one entry of `plan` each; `met` counts them.

    `dropped` is a method, and the header, in lower case, that requests with it lose on their way.
    """

    matches: Callable[[str, str], bool] = lambda method, path: True
    plan: list[str] = field(default_factory=list)
    met: int = 0
    dropped: tuple[str, str] = ("", "")
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, method: str, path: str) -> str | None:
        """The fault for this request, if any."""
        with self.lock:
            if not self.plan or not self.matches(method, path):
                return None
            self.met += 1
            return self.plan.pop(0)


class _Proxy(ThreadingHTTPServer):
    def __init__(self, endpoint: str, faults: Faults) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        address = urlsplit(endpoint)
        self.target, self.faults = (address.hostname or "", address.port), faults


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def respond(self) -> None:
        fault = self.server.faults.next(self.command, self.path)
        body = self.body()
        if fault == "reset":
            return self._reset()
        if fault in _ERRORS:
            status, code = _ERRORS[fault]
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>made up</Message></Error>"
            return self._send(status, {"Content-Type": "application/xml"}, text.encode())
        upstream = http.client.HTTPConnection(*self.server.target, timeout=60)
        method, lost = self.server.faults.dropped
        kept = {
            name: value
            for name, value in self.headers.items()
            if (self.command, name.lower()) != (method, lost)
        }
        upstream.request(self.command, self.path, body, kept)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if fault == "reset after":
            return self._reset()
        if fault == "corrupted" and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        dropped = {"transfer-encoding", "connection", "date", "server"}
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in dropped}
        return self._send(answer.status, headers, content, kept=_KEPT.get(fault or "", 1.0))

    def _send(self, status: int, headers: dict[str, str], body: bytes, kept: float = 1.0) -> None:
        self.send_response(status)
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
        for name, value in {**headers, "Content-Length": length or str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: int(len(body) * kept)])
        self.close_connection = kept < 1

    def _reset(self) -> None:
        # With a linger of 0 seconds the kernel sends RST instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            self.close_connection = True


@contextmanager
def fault_proxy(endpoint: str, faults: Faults) -> Iterator[str]:
    """The address of a proxy to `endpoint`, on loopback."""
    server = _Proxy(endpoint, faults)
    with in_thread(server):
        yield f"http://{LOOPBACK}:{server.server_port}"
