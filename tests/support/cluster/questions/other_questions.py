"""Questions about HTTPRoutes, Leases and Events."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.questions.question import (
    EVENTS,
    LEASES,
    NAMESPACE,
    OTHER_UID,
    ROUTES,
    Question,
    patch,
    post,
)

_BAD = f"{ROUTES}/r-bad"
_LEASE_DRY = f"{LEASES}/l?dryRun=All"
_BACKEND = {"name": "a", "port": 80}


def _route(name: str, backends: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "parentRefs": [{"name": "gateway"}],
            "hostnames": ["a.example.org"],
            "rules": [{"backendRefs": backends}],
            **spec,
        },
    }


def _bad_route(name: str, backends: list[dict[str, Any]], **spec: Any) -> Question:
    """Return the question whether a route is taken; it is gone before the next one."""
    return post(name, ROUTES, _route("r-bad", backends, **spec), leaves=_BAD)


ROUTE_QUESTIONS = (
    post("route", ROUTES, _route("r", [{**_BACKEND, "weight": 80}, {"name": "b", "port": 80, "weight": 20}])),
    post("route defaults", ROUTES, _route("r-default", [_BACKEND])),
    _bad_route("route weight -1", [{**_BACKEND, "weight": -1}]),
    _bad_route("route weight big", [{**_BACKEND, "weight": 1000001}]),
    _bad_route("route no port", [{"name": "a"}]),
    _bad_route("route port 0", [{"name": "a", "port": 0}]),
    _bad_route("route no name", [{"port": 80}]),
    _bad_route("route twice the same", [_BACKEND, _BACKEND]),
    _bad_route("route 17 backends", [{"name": f"a{number}", "port": 80} for number in range(17)]),
    _bad_route("route bad host", [_BACKEND], hostnames=["A_b"]),
    _bad_route("route ip host", [_BACKEND], hostnames=["10.0.0.1"]),
    post(
        "route timeouts",
        ROUTES,
        _route("r-bad", []) | {"spec": {"rules": [{"timeouts": {"request": "60 s"}, "backendRefs": []}]}},
        leaves=_BAD,
    ),
)


def _lease_spec(name: str, **spec: Any) -> Question:
    return patch(name, _LEASE_DRY, {"spec": spec})


def _lease(name: str, **times: object) -> Question:
    """Return the question whether a new Lease is taken."""
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 30, **times}
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": NAMESPACE},
        "spec": spec,
    }
    return post(name, LEASES, body)


def _delete_lease(name: str, uid: str = "") -> Question:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid} if uid else {}}
    return Question(name, "DELETE", f"{LEASES}/l", options)


_FULL_SECOND = "2026-11-20T10:00:00.000000Z"

LEASE_QUESTIONS = (
    _lease("lease with one digit", renewTime=_FULL_SECOND, acquireTime="2026-11-20T10:00:00.5Z"),
    _lease("lease with a day for a time", renewTime="yesterday"),
    _lease("lease of a wrong type", leaseDurationSeconds="x"),
    _lease("lease of no duration", leaseDurationSeconds=0),
    _lease("lease", renewTime=_FULL_SECOND, acquireTime=_FULL_SECOND),
    _lease_spec("lease duration 0", leaseDurationSeconds=0),
    _lease_spec("lease transitions -1", leaseTransitions=-1),
    _lease_spec("lease bad time", renewTime="yesterday"),
    _lease_spec("lease whole second", renewTime="2026-11-20T10:00:01Z"),
    _lease_spec("lease with an offset", renewTime="2026-11-20T11:00:01.250000+01:00"),
    _lease_spec("lease unknown field", wibble=1),
    patch(
        "lease stale",
        _LEASE_DRY,
        {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "b"}},
    ),
    _lease_spec("lease text number", leaseDurationSeconds="x"),
    _delete_lease("delete lease, wrong uid", OTHER_UID),
    _delete_lease("delete lease"),
)


def _event(name: str, **fields: Any) -> Question:
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}, **fields}
    return post(name, EVENTS, body)


EVENT_QUESTIONS = (
    _event(
        "event",
        involvedObject={"kind": "InferenceService", "name": "p", "namespace": NAMESPACE},
        reason="R",
        message="m",
        type="Normal",
    ),
    _event(
        "event elsewhere",
        involvedObject={"kind": "InferenceService", "name": "p", "namespace": "default"},
        reason="R",
    ),
    _event("event without type", involvedObject={"namespace": NAMESPACE}, type="Odd"),
)
