"""The HTTPRoutes that KServe makes for an InferenceService in Standard mode."""

from __future__ import annotations

from typing import Any

from include.sandbox.kserve.standard.machine import Backend, Object, Predictor


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
                "ownerReferences": [_owner(service)],
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
                        "timeouts": {"request": "60s"},
                    }
                ],
            },
        }
        for route_name in (f"{name}-predictor", name)
    ]


def _reference(backend: Backend, namespace: str) -> dict[str, Any]:
    weight = {} if backend.weight is None else {"weight": backend.weight}
    return {"kind": "Service", "name": backend.name, "namespace": namespace, "port": 80, **weight}


def _owner(service: Object) -> dict[str, Any]:
    metadata = service["metadata"]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
