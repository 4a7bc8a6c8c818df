"""The HTTPRoute by which testers reach a candidate in Standard mode, on its own host.

Not by a header on the service's own host: KServe's route matches by a regular expression, and Gateway API leaves
open whether that or a rule with a header goes first (`HTTPRouteRule.matches`: "the precedence of RegularExpression
path matches are implementation-specific"). On another host there is nothing to go first, and no user can come there by
what a client happens to send.

The host is that of the predictor's own HTTPRoute with `-candidate` after the predictor's name, so it follows the
cluster's domain template, and a wildcard listener and certificate that take the one take the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.rollout.fields import items, mapping, text, texts, whole

API_GROUP, API_VERSION = "gateway.networking.k8s.io", "v1"
_MANAGED_BY = ("app.kubernetes.io/managed-by", "slipway")
# The longest that the name of a DNS label may be.
_LABEL_LIMIT = 63


@dataclass(frozen=True)
class CandidateRoute:
    """What is seen of it: host and backend, and whether the Gateways have taken it; "" if there is none."""

    host: str = ""
    backend: str = ""
    current: bool = False


def route_name(service: str) -> str:
    """Return the HTTPRoute's name; KServe's own are called `service` and `service`-predictor."""
    return f"{service}-predictor-candidate"


def is_own(route: Mapping[str, Any], service: str) -> bool:
    """Return whether a route is slipway's for this InferenceService."""
    metadata = mapping(route.get("metadata"))
    key, value = _MANAGED_BY
    return metadata.get("name") == route_name(service) and texts(metadata.get("labels")).get(key) == value


def candidate_route(
    service: str, uid: str, backend: str, routes: Iterable[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the manifest that leads the candidate's host to `backend`; None if there is nothing to make it after.

    `routes` must hold the predictor's own, of which it takes Gateways, host and port.
    """
    predictor = f"{service}-predictor"
    known = next((one for one in routes if mapping(one.get("metadata")).get("name") == predictor), None)
    if known is None:
        return None
    spec, metadata = mapping(known.get("spec")), mapping(known.get("metadata"))
    host = next((one for one in _hosts(spec) if one.startswith(predictor)), "")
    if not host or len(host.partition(".")[0]) + len("-candidate") > _LABEL_LIMIT:
        return None
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": "HTTPRoute",
        "metadata": {
            "name": route_name(service),
            "namespace": metadata.get("namespace"),
            "labels": dict([_MANAGED_BY]),
            "ownerReferences": [
                {
                    "apiVersion": "serving.kserve.io/v1beta1",
                    "kind": "InferenceService",
                    "name": service,
                    "uid": uid,
                }
            ],
        },
        "spec": {
            "parentRefs": copy.deepcopy(items(spec.get("parentRefs"))),
            "hostnames": [f"{predictor}-candidate{host.removeprefix(predictor)}"],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                    "backendRefs": [
                        {
                            "kind": "Service",
                            "name": backend,
                            "namespace": metadata.get("namespace"),
                            "port": _port(spec),
                        }
                    ],
                }
            ],
        },
    }


def _port(spec: Mapping[str, Any]) -> int:
    """Return the port at which the predictors' Services are led to; KServe's is 80."""
    for rule in items(spec.get("rules")):
        for reference in items(rule.get("backendRefs")):
            return whole(reference.get("port")) or 80
    return 80


def _hosts(spec: Mapping[str, Any]) -> list[str]:
    names = spec.get("hostnames")
    return [text(name) for name in names] if isinstance(names, list) else []


def read_candidate_route(
    routes: Iterable[Mapping[str, Any]], service: str, *, is_taken: Callable[[Mapping[str, Any]], bool]
) -> CandidateRoute:
    """Return what is seen of the candidate's route; `is_taken` tells whether the Gateways have taken one."""
    for route in items(list(routes)):
        spec = mapping(route.get("spec"))
        references = [one for rule in items(spec.get("rules")) for one in items(rule.get("backendRefs"))]
        if is_own(route, service) and len(references) == 1:
            host = next(iter(_hosts(spec)), "")
            return CandidateRoute(host, text(references[0].get("name")), is_taken(route))
    return CandidateRoute()
