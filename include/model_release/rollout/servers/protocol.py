"""By which protocol users ask a model, as its InferenceService says it.

Knative leads requests to one port of a pod, and knows by that port's name what is spoken there: `h2c` is HTTP/2 without
TLS, which gRPC needs. KServe's Triton runtime listens on 9000 for gRPC. In Standard mode the Service that KServe makes
leads to the same port, and says by its name that it speaks HTTP/2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.rollout.fields import mapping
from include.model_release.spec.servers.predictor import ServingProtocol

GRPC_PORT = 9000
H2C = "h2c"
_GRPC_VERSIONS = ("grpc-v1", "grpc-v2")


def protocol_fields(protocol: ServingProtocol) -> dict[str, Any]:
    """Return the fields of `spec.predictor.model` that say by which protocol users ask it."""
    if protocol == "http":
        return {"protocolVersion": "v2"}
    port = {"name": H2C, "containerPort": GRPC_PORT, "protocol": "TCP"}
    return {"protocolVersion": "grpc-v2", "ports": [port]}


def served_protocol(isvc: Mapping[str, Any]) -> ServingProtocol:
    """Return by which protocol users ask what is deployed: gRPC where its version or its port says so."""
    model = mapping(mapping(mapping(isvc.get("spec")).get("predictor")).get("model"))
    ports = model.get("ports")
    named = [mapping(port).get("name") for port in ports] if isinstance(ports, list) else []
    is_grpc = model.get("protocolVersion") in _GRPC_VERSIONS or any(
        str(name or "") == H2C or str(name or "").startswith("grpc") for name in named
    )
    return "grpc" if is_grpc else "http"
