"""Where the pod of the mirror comparison listens."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_triton.connection_fields import extra_of
from slipway_core.errors import UserError


@dataclass(frozen=True)
class Listening:
    """The address that the pod binds, and its ports for HTTP and gRPC."""

    host: str = "0.0.0.0"
    port: int = 8080
    grpc_port: int = 8081


class MirrorComparisonHook(BaseHook):
    """The ports to which a router mirrors requests.

    An Airflow connection of type ``http``: host (the address to bind, not one to connect to), port, and extra
    ``grpc_port``. What it leaves out, and all of it where there is no such connection, is `Listening`'s default.

    :param mirror_conn_id: the connection, which need not exist.
    """

    conn_name_attr = "mirror_conn_id"
    default_conn_name = "slipway_mirror"

    def __init__(self, mirror_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.mirror_conn_id = mirror_conn_id

    def listening(self) -> Listening:
        """Return where the pod listens.

        :raises UserError: a port is not valid, or both are the same.
        """
        try:
            connection = self.get_connection(self.mirror_conn_id)
        except AirflowNotFoundException:
            return Listening()
        default = Listening()
        port = connection.port or default.port
        try:
            extra = extra_of(connection)
        except ValueError as error:
            raise UserError(
                f"the connection {self.mirror_conn_id!r} cannot be used",
                expected="a JSON object as its extra",
                found=str(error),
                remedy="correct the connection, or delete it if the defaults are right",
            ) from None
        grpc_port = extra.get("grpc_port", default.grpc_port)
        if not str(grpc_port).isdigit() or not 0 < int(grpc_port) < 65536 or int(grpc_port) == port:
            raise UserError(
                f"the connection {self.mirror_conn_id!r} cannot be used",
                expected="two ports: `port` for HTTP and extra `grpc_port`, from 1 to 65535",
                found=f"port {port} and grpc_port {grpc_port!r}",
                remedy="correct the connection, or delete it if the defaults are right",
            )
        return Listening(connection.host or default.host, port, int(grpc_port))
