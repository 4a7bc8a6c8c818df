"""What Airflow learns of this provider: the connection type `triton`, its form, and the links of tasks.

The entry point ``apache_airflow_provider`` names it. Airflow makes the connection's form of it without importing the
hook, so nothing is imported here.
"""

from __future__ import annotations

from typing import Any

_PORT = {"type": ["integer", "null"], "minimum": 1, "maximum": 65535}
_TEXT = {"type": ["string", "null"]}
_SECONDS = {"type": ["number", "null"], "exclusiveMinimum": 0}


def _field(label: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"label": label, "schema": schema, "description": description}


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's ``provider.yaml``."""
    return {
        "package-name": "airflow-provider-triton",
        "name": "Triton Inference Server",
        "description": "NVIDIA Triton Inference Server: a hook, triggers, and operators on its model-control API.",
        "integrations": [
            {
                "integration-name": "Triton Inference Server",
                "external-doc-url": "https://github.com/triton-inference-server/server",
                "tags": ["service"],
            }
        ],
        "hooks": [_modules("airflow_provider_triton.hooks.triton")],
        "operators": [_modules("airflow_provider_triton.operators")],
        "triggers": [_modules("airflow_provider_triton.triggers.triton")],
        "extra-links": ["airflow_provider_triton.links.TritonServerLink"],
        "connection-types": [
            {
                "connection-type": "triton",
                "hook-class-name": "airflow_provider_triton.hooks.triton.TritonHook",
                "hook-name": "Triton Inference Server",
                "conn-fields": _connection_fields(),
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login"],
                    "relabeling": {
                        "password": "Bearer token",
                        "port": "Port (of HTTP, or of the chosen protocol)",
                    },
                    "placeholders": {"host": "triton-staging.models", "port": "8000"},
                },
            }
        ],
    }


def _modules(name: str) -> dict[str, Any]:
    return {"integration-name": "Triton Inference Server", "python-modules": [name]}


def _connection_fields() -> dict[str, Any]:
    return {
        "protocol": _field(
            "Protocol",
            {"type": ["string", "null"], "enum": ["http", "grpc", None]},
            "If empty: control over HTTP, inference over gRPC.",
        ),
        "grpc_port": _field("gRPC port", _PORT, "If empty: 8001."),
        "metrics_port": _field(
            "Metrics port",
            _PORT,
            "Plain HTTP; a drain looks here for queued requests. Triton's default is 8002.",
        ),
        "ssl": _field("TLS", {"type": ["boolean", "null"]}, "HTTPS, and gRPC over TLS."),
        "ca": _field(
            "CA certificates",
            _TEXT,
            "Path of a PEM file on the workers. If empty: the machine's own certificates.",
        ),
        "client_cert": _field("Client's certificate", _TEXT, "Path of a PEM file on the workers."),
        "client_key": _field(
            "Client's key",
            _TEXT,
            "Path of a PEM file on the workers. If empty: the key is in the certificate's file.",
        ),
        "headers": _field(
            "Headers", {"type": ["object", "null"]}, "Sent with each request; over gRPC as metadata."
        ),
        "timeout_s": _field(
            "Request timeout (s)",
            _SECONDS,
            "Longer than the largest model takes to load. If empty: 600.",
        ),
        "connect_timeout_s": _field("Connection timeout (s)", _SECONDS, "If empty: 10."),
        "repository_path": _field(
            "Repository path",
            _TEXT,
            "The folder where the server has its model repository as files, if it has one.",
        ),
    }
