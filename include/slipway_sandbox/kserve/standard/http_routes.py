"""The HTTPRoutes that KServe makes for an InferenceService in Standard mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_sandbox.kserve.owner import owner
from slipway_sandbox.kserve.standard.machine import Backend, Object, Predictor


def http_routes(predictor: Predictor, service: Object, domain: str, gateway: str) -> list[dict[str, Any]]:
    """Return the HTTPRoutes, the predictor's and the service's own; none before there is anything to lead to."""
    if not predictor.routed:
        return []
    metadata = service["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    gateway_namespace, _, gateway_name = gateway.partition("/")
    references = [_reference(one, namespace) for one in predictor.routed]
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {
                "name": route_name,
                "namespace": namespace,
                "labels": dict(metadata.get("labels") or {}),
                "annotations": dict(metadata.get("annotations") or {}),
                "ownerReferences": [owner(service)],
            },
            "spec": {
                "parentRefs": [
                    {
                        "group": "gateway.networking.k8s.io",
                        "kind": "Gateway",
                        "namespace": gateway_namespace,
                        "name": gateway_name,
                    }
                ],
                "hostnames": [f"{route_name}.{namespace}.{domain}"],
                "rules": [
                    {
                        "matches": [{"path": {"type": "RegularExpression", "value": "^/.*$"}}],
                        "backendRefs": references,
                        "filters": [_header_filter(name, namespace)],
                        "timeouts": {"request": "60s"},
                    }
                ],
            },
        }
        for route_name in (f"{name}-predictor", name)
    ]


def _reference(backend: Backend, namespace: str) -> dict[str, Any]:
    """Return a reference with the defaults that the API server fills in: a single backend has weight 1."""
    weight = 1 if backend.weight is None else backend.weight
    return {
        "group": "",
        "kind": "Service",
        "name": backend.name,
        "namespace": namespace,
        "port": 80,
        "weight": weight,
    }


def _header_filter(name: str, namespace: str) -> dict[str, Any]:
    headers = [("KServe-Isvc-Name", name), ("KServe-Isvc-Namespace", namespace)]
    return {
        "type": "RequestHeaderModifier",
        "requestHeaderModifier": {"set": [{"name": key, "value": value} for key, value in headers]},
    }


def routed_by(route: Mapping[str, Any]) -> tuple[Backend, ...]:
    """Return what a route of KServe's leads to, whoever wrote it last."""
    references = route["spec"]["rules"][0]["backendRefs"]
    if len(references) == 1:
        return (Backend(references[0]["name"]),)
    return tuple(Backend(one["name"], one.get("weight", 1)) for one in references)
