"""Receivers of notices on this machine: an HTTP server that keeps what it is sent, with TLS or without, and SMTP."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message as MailMessage
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.http_server import QuietHandler, in_thread

_CHUNK_LIMIT = 1 << 20


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)


@dataclass
class HttpReceiver:
    """What an HTTP server was sent, and how it answers."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    address: str = ""
    port: int = 0


@contextmanager
def http_receiver(
    status: int = 200, headers: dict[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[HttpReceiver]:
    """Give a server that answers every POST in one way, for as long as the block runs."""
    receiver = HttpReceiver(status, headers or {})

    class Handler(QuietHandler):
        def respond(self) -> None:
            """Keep the request, and answer."""
            length = min(int(self.headers.get("content-length") or 0), _CHUNK_LIMIT)
            sent = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, sent, self.rfile.read(length)))
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.port = server.server_address[1]
    receiver.address = f"{'http' if tls is None else 'https'}://{LOOPBACK}:{receiver.port}"
    with in_thread(server):
        yield receiver


def tls_of(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a server's TLS with a certificate for this machine, and the file by which clients trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, LOOPBACK)]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, private = folder / "receiver.pem", folder / "receiver.key"
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    return context, trusted


@dataclass
class MailReceiver:
    """What an SMTP server was sent, and the login that it takes."""

    port: int
    mails: list[MailMessage] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def mail_receiver(*, password: str) -> Iterator[MailReceiver]:
    """Give an SMTP server that takes one password, for as long as the block runs."""
    receiver = MailReceiver(free_port())

    class Handler:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
            """Keep the mail."""
            receiver.mails.append(message_from_bytes(envelope.content))
            return "250 OK"

    def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
        receiver.logins.append((given.login.decode(), given.password.decode()))
        return AuthResult(success=given.password.decode() == password)

    controller = Controller(
        Handler(), hostname=LOOPBACK, port=receiver.port, authenticator=authenticate, auth_require_tls=False
    )
    controller.start()
    try:
        yield receiver
    finally:
        controller.stop()
