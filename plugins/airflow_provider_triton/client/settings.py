"""An Airflow connection to a Triton server, read once and checked before anything is sent.

The fields are described for people in `airflow_provider_triton.provider_info`, which is what Airflow's connection form
is made of. Connections of another type (``generic``, ``http``) with the same fields work as well.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from airflow_provider_triton.connection_fields import bracketed, decoded, extra_of
from airflow_provider_triton.errors import UserError

if TYPE_CHECKING:
    from airflow.sdk import Connection

Protocol = Literal["http", "grpc"]

HTTP_PORT, GRPC_PORT = 8000, 8001
CONNECT_LIMIT_S = 10.0
# A load answers only when it is done: this is longer than the largest model takes.
CALL_LIMIT_S = 600.0
_HEADERS_LIMIT = 32
_REPOSITORY_PATH = "repository_path"


class ConnectionExtra(BaseModel):
    """The connection's extra; what is left empty in a form counts as left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    protocol: Protocol | None = None
    grpc_port: int | None = Field(None, ge=1, le=65535)
    metrics_port: int | None = Field(None, ge=1, le=65535)
    ssl: bool = False
    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    headers: dict[str, str] = Field(default_factory=dict, max_length=_HEADERS_LIMIT)
    timeout_s: float = Field(CALL_LIMIT_S, gt=0, le=86400)
    connect_timeout_s: float = Field(CONNECT_LIMIT_S, gt=0, le=600)

    @field_validator("headers", mode="before")
    @classmethod
    def _json(cls, value: Any) -> Any:
        return decoded(value)

    @field_validator("headers")
    @classmethod
    def _printable(cls, value: dict[str, str]) -> dict[str, str]:
        if not all(_is_printable(name) and name and _is_printable(text) for name, text in value.items()):
            raise ValueError(
                "a header contains a line break or another character that headers must not contain"
            )
        return value


@dataclass(frozen=True)
class TritonSettings:
    """Where a server is, who asks, and how long an answer may take.

    :param control: the protocol of health, model control, statistics and settings.
    :param inference: the protocol of inference requests; older connections name none, and use both protocols.
    :param headers: what each request carries, the bearer token included; never shown.
    :param metrics_address: ``HOST:PORT`` of the metrics, or None where nobody says.
    """

    conn_id: str
    control: Protocol
    inference: Protocol
    http_address: str
    grpc_address: str
    metrics_address: str | None
    tls: bool
    ca: Path | None
    client_cert: Path | None
    client_key: Path | None
    headers: dict[str, str] = field(repr=False)
    timeout_s: float
    connect_timeout_s: float

    @property
    def address(self) -> str:
        """Return ``HOST:PORT`` of the protocol that control uses, for people."""
        return self.http_address if self.control == "http" else self.grpc_address

    @property
    def url(self) -> str:
        """Return the URL of the HTTP endpoint."""
        return f"{'https' if self.tls else 'http'}://{self.http_address}"

    def tls_context(self) -> ssl.SSLContext:
        """Return what checks the server's certificate, and shows the client's.

        :raises UserError: a file cannot be read, or is no PEM.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.client_cert is not None:
                context.load_cert_chain(self.client_cert, self.client_key)
        except (OSError, ssl.SSLError) as error:
            raise self.unusable("`ca`, `client_cert` or `client_key`: " + _reason(error)) from error
        return context

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return CA, client's key and client's certificate as gRPC takes them.

        :raises UserError: a file cannot be read, or is no PEM.
        """
        self.tls_context()  # gRPC does not say what is wrong with a certificate
        ca, key, certificate = (
            None if path is None else path.read_bytes()
            for path in (self.ca, self.client_key or self.client_cert, self.client_cert)
        )
        return ca, key, certificate

    def unusable(self, found: str) -> UserError:
        """Return the error that says what is wrong with the connection."""
        return _unusable(self.conn_id, found)


def settings_of(connection: Connection, conn_id: str) -> TritonSettings:
    """Return what a connection says.

    :raises UserError: it says nothing that can be used; no value of a field is shown.
    """
    try:
        filled = {
            name: value for name, value in _extra(connection, conn_id).items() if value not in ("", None)
        }
        extra = ConnectionExtra.model_validate(filled)
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False)
        )
        raise _unusable(conn_id, "; ".join(problems)) from None  # the cause would show the values
    host, token = (connection.host or "").strip(), connection.password or ""
    if not host or "/" in host or "@" in host:
        raise _unusable(conn_id, "its host is empty, or is not just a host name or an address")
    if not _is_printable(token):
        raise _unusable(
            conn_id, "its token contains a line break or another character that headers must not contain"
        )
    if not extra.ssl and (extra.ca or extra.client_cert or extra.client_key):
        raise _unusable(conn_id, "it names certificates, but TLS (`ssl`) is off")
    if extra.client_key and not extra.client_cert:
        raise _unusable(conn_id, "it has a client key (`client_key`) but no `client_cert`")
    only = extra.protocol
    # Of a connection for gRPC alone the port is that of gRPC, unless there is one more.
    is_of_grpc = only == "grpc" and extra.grpc_port is None
    http_port = (None if is_of_grpc else connection.port) or HTTP_PORT
    grpc_port = extra.grpc_port or (connection.port if is_of_grpc else None) or GRPC_PORT
    authorization = {"Authorization": f"Bearer {token}"} if token else {}
    return TritonSettings(
        conn_id=conn_id,
        control=only or "http",
        inference=only or "grpc",
        http_address=f"{bracketed(host)}:{http_port}",
        grpc_address=f"{bracketed(host)}:{grpc_port}",
        metrics_address=f"{bracketed(host)}:{extra.metrics_port}" if extra.metrics_port else None,
        tls=extra.ssl,
        ca=extra.ca,
        client_cert=extra.client_cert,
        client_key=extra.client_key,
        headers={**extra.headers, **authorization},
        timeout_s=extra.timeout_s,
        connect_timeout_s=extra.connect_timeout_s,
    )


def repository_path_of(connection: Connection, conn_id: str) -> str | None:
    """Return the folder in which the server sees its model repository as files, None where nobody says.

    :raises UserError: it is no absolute path.
    """
    path = _extra(connection, conn_id).get(_REPOSITORY_PATH)
    if path is None or str(path).startswith("/"):
        return None if path is None else str(path)
    raise UserError(
        f"the extra {_REPOSITORY_PATH!r} of the connection {conn_id!r} is not an absolute path",
        expected="a folder on the server, such as /mnt/staging",
        found=str(path),
        remedy="correct or remove it",
    )


def _extra(connection: Connection, conn_id: str) -> dict[str, Any]:
    try:
        return extra_of(connection)
    except ValueError as error:
        raise _unusable(conn_id, str(error)) from None


def _unusable(conn_id: str, found: str) -> UserError:
    return UserError(
        f"the connection {conn_id!r} cannot be used for Triton",
        expected="host, port and the fields of the connection type `triton`",
        found=found,
        remedy="correct the connection",
    )


def _is_printable(text: str) -> bool:
    return all(" " <= one <= "~" for one in text)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
