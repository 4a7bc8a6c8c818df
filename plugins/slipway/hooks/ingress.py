"""Where a request for an InferenceService's host has to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from slipway.hooks.connection_fields import base_url
from slipway_core.errors import UserError


@dataclass(frozen=True)
class Endpoint:
    """An address to connect to, as a URL without path, and the host (or gRPC authority) to ask it for."""

    base_url: str
    host: str


class IngressHook(BaseHook):
    """The way to the hosts that InferenceServices tell in their status.

    A host may be known to no name server, or not to the one that is asked from here. Then a connection of type
    ``http`` names the ingress's schema, host and port, and requests carry the service's host in their header. Without
    such a connection the service's own URL is used as it is.

    :param ingress_conn_id: the connection, which need not exist.
    """

    conn_name_attr = "ingress_conn_id"
    default_conn_name = "slipway_ingress"

    def __init__(self, ingress_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.ingress_conn_id = ingress_conn_id

    def endpoint(self, url: str) -> Endpoint:
        """Where to send requests for the service at ``url``.

        :raises UserError: the connection names no host.
        """
        parts = urlsplit(url)
        try:
            connection = self.get_connection(self.ingress_conn_id)
        except AirflowNotFoundException:
            return Endpoint(f"{parts.scheme}://{parts.netloc}", parts.netloc)
        if not connection.host:
            raise UserError(
                f"the connection {self.ingress_conn_id!r} cannot be used",
                expected="the ingress's host, and its port if it is not the schema's default",
                found="no host",
                remedy="correct the connection, or delete it if the services' own hosts are reachable",
            )
        try:
            address = base_url(connection.host, connection.schema, connection.port)
        except ValueError as error:
            raise UserError(
                f"the connection {self.ingress_conn_id!r} cannot be used for requests to users' hosts",
                expected="a host or http(s)://HOST, and one port",
                found=str(error),
                remedy="correct the connection",
            ) from None
        return Endpoint(address, parts.netloc)
