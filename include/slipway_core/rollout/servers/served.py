"""By which protocol users ask what is deployed. The guard observes by it, too: plain values, no release file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from slipway_core.rollout.fields import mapping

H2C = "h2c"
_GRPC_VERSIONS = ("grpc-v1", "grpc-v2")


def served_protocol(predictor: Mapping[str, Any]) -> Literal["http", "grpc"]:
    """Return by which protocol users ask what is deployed: gRPC where its version or its port says so."""
    model = mapping(predictor.get("model"))
    ports = model.get("ports")
    named = [str(mapping(port).get("name") or "") for port in ports] if isinstance(ports, list) else []
    if model.get("protocolVersion") in _GRPC_VERSIONS or any("grpc" in one or H2C in one for one in named):
        return "grpc"
    return "http"
