"""An object store that takes every byte and keeps none: for measuring the sender alone.

    python -m benchmarks.publishing.sink

It prints its port, and answers as much of S3's protocol as an upload in parts needs.
"""

from __future__ import annotations

import base64
import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from slipway_sandbox.host.ports import LOOPBACK

_BLOCK = 1 << 20


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_DELETE(self) -> None:
        """Answer a DELETE: there is nothing to delete, which is no error in S3."""
        self._answer(b"")

    def do_POST(self) -> None:
        """Begin or ends an upload in parts."""
        self._swallow()
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        what = "InitiateMultipartUploadResult" if "uploads" in query else "CompleteMultipartUploadResult"
        inner = f"<Bucket>{path.split('/')[1]}</Bucket><Key>k</Key><UploadId>1</UploadId><ETag>1</ETag>"
        self._answer(f"<?xml version='1.0'?><{what}>{inner}</{what}>".encode())

    def do_PUT(self) -> None:
        """Take an object or a part; refuses what is not what its SHA-256 says."""
        if self._swallow() != self.headers.get("x-amz-checksum-sha256"):
            self.send_error(400, "BadDigest")
            return
        self._answer(b"")

    def _swallow(self) -> str:
        digest, rest = hashlib.sha256(), int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        while rest:
            block = self.rfile.read(min(rest, _BLOCK))
            digest.update(block)
            rest -= len(block)
        return base64.b64encode(digest.digest()).decode()

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
