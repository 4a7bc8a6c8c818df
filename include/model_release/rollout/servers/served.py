"""By which protocol users ask what is deployed. The guard observes by it, too: plain values, no release file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from include.model_release.rollout.fields import mapping

H2C = "h2c"
_GRPC_VERSIONS = ("grpc-v1", "grpc-v2")


def served_protocol(isvc: Mapping[str, Any]) -> Literal["http", "grpc"]:
    """Return by which protocol users ask what is deployed: gRPC where its version or its port says so."""
    model = mapping(mapping(mapping(isvc.get("spec")).get("predictor")).get("model"))
    ports = model.get("ports")
    named = [mapping(port).get("name") for port in ports] if isinstance(ports, list) else []
    is_grpc = model.get("protocolVersion") in _GRPC_VERSIONS or any(
        str(name or "") == H2C or str(name or "").startswith("grpc") for name in named
    )
    return "grpc" if is_grpc else "http"
