"""By which protocol users ask a model, as its InferenceService says it.

Knative leads requests to one port of a pod, and knows by that port's name what is spoken there: `h2c` is HTTP/2 without
TLS, which gRPC needs. KServe's Triton runtime listens on 9000 for gRPC. In Standard mode the Service that KServe makes
leads to the same port, and says by its name that it speaks HTTP/2.
"""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.servers.served import H2C
from slipway_core.spec.servers.predictor import ServingProtocol

GRPC_PORT = 9000


def protocol_fields(protocol: ServingProtocol) -> dict[str, Any]:
    """Return the fields of `spec.predictor.model` that say by which protocol users ask it."""
    if protocol == "http":
        return {"protocolVersion": "v2"}
    port = {"name": H2C, "containerPort": GRPC_PORT, "protocol": "TCP"}
    return {"protocolVersion": "grpc-v2", "ports": [port]}
