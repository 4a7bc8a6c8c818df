"""A real Envoy that ends TLS before a real tritonserver, and lets in who shows a certificate, a token and a header."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.services.router import envoy_program
from slipway_sandbox.services.triton import TritonPorts, end_with_parent
from tests.support.triton_provider.certificates import Authority
from tests.support.waiting import wait_until

TOKEN = "token-that-nobody-may-see"
HEADERS = {"X-Team": "vision-team-secret"}


@contextmanager
def tls_proxy(folder: Path, authority: Authority, triton: TritonPorts) -> Iterator[int]:
    """Run the proxy while the context lasts; give its one port, for HTTP and gRPC."""
    port = free_port()
    bootstrap = folder / "envoy.json"
    bootstrap.write_text(json.dumps(_bootstrap(authority, triton, port)))
    command = [str(envoy_program()), "-c", str(bootstrap), "--concurrency", "1", "--disable-hot-restart"]
    with (folder / "envoy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)
    try:
        wait_until(lambda: _listens(process, port), f"Envoy listens; see {log.name}")
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "Envoy has ended"
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _bootstrap(authority: Authority, triton: TritonPorts, port: int) -> dict[str, Any]:
    server = authority.issue("server")
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificates": [
                {
                    "certificate_chain": {"filename": str(server.certificate)},
                    "private_key": {"filename": str(server.key)},
                }
            ],
            "validation_context": {"trusted_ca": {"filename": str(authority.ca)}},
        },
    }
    wanted = {"authorization": f"Bearer {TOKEN}", **{name.lower(): value for name, value in HEADERS.items()}}
    rules = [{"header": {"name": name, "string_match": {"exact": value}}} for name, value in wanted.items()]
    access = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
        "rules": {
            "action": "ALLOW",
            "policies": {
                "known": {"permissions": [{"and_rules": {"rules": rules}}], "principals": [{"any": True}]}
            },
        },
    }
    router = {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
        ".HttpConnectionManager",
        "stat_prefix": "tls",
        "http_filters": [
            {"name": "envoy.filters.http.rbac", "typed_config": access},
            {"name": "envoy.filters.http.router", "typed_config": router},
        ],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "triton",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/", "grpc": {}},
                            "route": {"cluster": "grpc", "timeout": "60s"},
                        },
                        {"match": {"prefix": "/"}, "route": {"cluster": "http", "timeout": "60s"}},
                    ],
                }
            ]
        },
    }
    listener = {
        "name": "tls",
        "address": _address(port),
        "filter_chains": [
            {
                "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
                "filters": [
                    {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
                ],
            }
        ],
    }
    clusters = [_cluster("http", triton.http, {}), _cluster("grpc", triton.grpc, _HTTP2)]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


_HTTP2 = {
    "typed_extension_protocol_options": {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
}


def _cluster(name: str, port: int, more: dict[str, Any]) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address(port)}}
    return {
        "name": name,
        "connect_timeout": "2s",
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        **more,
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": LOOPBACK, "port_value": port}}
