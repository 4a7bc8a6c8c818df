"""Which servers a fleet has: a list that never changes, or what stands behind a Kubernetes Service now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_provider_triton.client.settings import (
    CALL_LIMIT_S,
    CONNECT_LIMIT_S,
    TritonSettings,
)
from airflow_provider_triton.connection_fields import bracketed


@dataclass(frozen=True)
class Member:
    """A server of a fleet.

    :param name: by which it is known from one look to the next: a connection, a pod.
    :param is_ready: whether the Service sends it requests; None: nobody knows.
    """

    name: str
    settings: TritonSettings
    is_ready: bool | None = None


class Members(Protocol):
    """Where a fleet's servers are known; asked anew at each step."""

    async def current(self) -> Sequence[Member]:
        """Return the servers that count or want to join.

        :raises TransientError: nobody knows now.
        """
        ...

    async def require_fencing(self) -> None:
        """Find out whether a server could be taken out; nothing is changed.

        :raises SlipwayError: it could not, or nobody knows.
        """
        ...

    async def fence(self, name: str, reason: str) -> None:
        """Take a server out, so that no request reaches it any more.

        :raises SlipwayError: it could not be taken out.
        """
        ...


class StaticMembers:
    """A list of servers. Fencing leaves a server out of it; whoever sends it requests must learn that by other means.

    :param servers: by their names.
    """

    def __init__(self, servers: Mapping[str, TritonSettings]) -> None:
        self._servers = dict(servers)

    async def current(self) -> Sequence[Member]:
        """Return the servers that were not fenced."""
        return [Member(name, settings) for name, settings in self._servers.items()]

    async def require_fencing(self) -> None:
        """Find nothing wrong: a server can always be left out."""

    async def fence(self, name: str, reason: str) -> None:
        """Leave a server out from now on."""
        self._servers.pop(name, None)


def with_control_over_grpc(settings: TritonSettings) -> TritonSettings:
    """Return the settings so that loads go over gRPC, unless the connection is for HTTP alone.

    A load over HTTP keeps one of the server's few HTTP threads busy, and with it all users whose connections it has.
    """
    return replace(settings, control="grpc") if settings.inference == "grpc" else settings


def server_at(name: str, host: str, http_port: int, *, grpc_port: int | None = None) -> TritonSettings:
    """Return how a server without TLS and token is reached, by its address.

    :param grpc_port: None: everything goes over HTTP.
    """
    return TritonSettings(
        conn_id=name,
        control="http" if grpc_port is None else "grpc",
        inference="http" if grpc_port is None else "grpc",
        http_address=f"{bracketed(host)}:{http_port}",
        grpc_address=f"{bracketed(host)}:{grpc_port or http_port}",
        metrics_address=None,
        tls=False,
        ca=None,
        client_cert=None,
        client_key=None,
        headers={},
        timeout_s=CALL_LIMIT_S,
        connect_timeout_s=CONNECT_LIMIT_S,
    )
