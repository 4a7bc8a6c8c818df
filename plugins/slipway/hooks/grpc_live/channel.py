"""A gRPC channel to a host behind the ingress."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_triton.connection_fields import bracketed
from slipway.hooks.ingress import Endpoint

if TYPE_CHECKING:
    import grpc

SERVICE = "/inference.GRPCInferenceService"


def open_channel(endpoint: Endpoint, most_bytes: int) -> grpc.aio.Channel:
    """Return a channel to an endpoint, asked for by its authority; to be opened in the event loop that uses it.

    What fails is the caller's to judge: nothing is sent a second time, and no proxy is asked.

    :param most_bytes: limit of one message, in either direction.
    """
    # The clients are imported by what uses them: every parse of a DAG would pay for them.
    import grpc

    parts = urlsplit(endpoint.base_url)
    is_tls = parts.scheme == "https"
    target = f"{bracketed(parts.hostname or '')}:{parts.port or (443 if is_tls else 80)}"
    options = [
        ("grpc.default_authority", endpoint.host),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", most_bytes),
        ("grpc.max_send_message_length", most_bytes),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if is_tls:
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
    return grpc.aio.insecure_channel(target, options)
