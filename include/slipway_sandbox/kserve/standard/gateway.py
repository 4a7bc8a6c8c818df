"""HTTPRoutes that KServe did not make, honoured as a Gateway would: hosts that lead to one Service alone.

Emulated as far as slipway uses it: a route with hostnames, one rule for all paths and one backend. Another is not
accepted. Kubernetes' garbage collection is emulated too: a route goes with the InferenceService that owns it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slipway_core.errors import SlipwayError
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.kserve.settings import Store
from slipway_sandbox.services.routing import Backend, Ingress

log = logging.getLogger(__name__)

ROUTES = "httproutes"
GATEWAY_CONTROLLER = "slipway.dev/emulated-gateway"
# What comes by such a route is counted apart from users' requests.
ROUTE_TAG = "route"
_SERVICES = "inferenceservices"
_RETRY_PAUSE_S = 1.0


class OtherRoutes:
    """The HTTPRoutes beside KServe's own; `route` makes the router do what all want and returns once it does.

    KServe's own are its workers' business: `written` tells the one of a namespace and name that one was written.
    """

    def __init__(
        self, store: Store, route: Callable[[], Awaitable[None]], written: Callable[[str, str], None]
    ) -> None:
        self._store = store
        self._route = route
        self._written = written

    async def run(self) -> None:
        """Take every route that comes, changes or goes, until cancelled."""
        async for kind, route in self._store.watch(ROUTES):
            if is_made_by_kserve(route):
                self._written(route["metadata"]["namespace"], route["metadata"]["ownerReferences"][0]["name"])
                continue
            while True:
                try:
                    await self._route()
                    break
                except SlipwayError as error:
                    log.warning("HTTPRoute %s: %s", route["metadata"]["name"], error)
                    await asyncio.sleep(_RETRY_PAUSE_S)
            if kind != "DELETED" and _backend_of(route):
                accept(self._store, route["metadata"]["namespace"], route["metadata"]["name"])

    def ingresses(self, backends: list[Backend]) -> list[Ingress]:
        """Return the hosts of the routes that lead to one of `backends`."""
        known = {backend.revision for backend in backends}
        return [
            Ingress(
                f"{route['metadata']['namespace']}/{route['metadata']['name']}",
                tuple(route["spec"].get("hostnames") or ()),
                ((_backend_of(route), 100),),
                tag=ROUTE_TAG,
            )
            for route in self._store.list(ROUTES)
            if not is_made_by_kserve(route) and _backend_of(route) in known
        ]

    def collect(self) -> None:
        """Delete the routes whose InferenceService is gone."""
        living = {service["metadata"]["uid"] for service in self._store.list(_SERVICES)}
        for route in self._store.list(ROUTES):
            owners = {one.get("uid") for one in route["metadata"].get("ownerReferences") or ()}
            if owners and not owners & living and not is_made_by_kserve(route):
                self._store.delete(ROUTES, route["metadata"]["namespace"], route["metadata"]["name"])


def is_made_by_kserve(route: Mapping[str, Any]) -> bool:
    """Return whether KServe's controller made a route."""
    return any(one.get("controller") for one in route["metadata"].get("ownerReferences") or ())


def _backend_of(route: Mapping[str, Any]) -> str:
    """Return the Service that a route leads everybody to; "" if it is of a kind that is not emulated."""
    rules = route["spec"].get("rules") or ()
    references = [one for rule in rules for one in rule.get("backendRefs") or ()]
    matches = [one for rule in rules for one in rule.get("matches") or ()]
    everywhere = [{"path": {"type": "PathPrefix", "value": "/"}}]
    if len(references) != 1 or matches not in ([], everywhere) or not route["spec"].get("hostnames"):
        return ""
    return str(references[0]["name"])


def accept(store: Store, namespace: str, name: str) -> None:
    """Say in a route's status what a Gateway says of a generation that it has taken; nothing happens if it is gone."""
    try:
        found = store.get(ROUTES, namespace, name)
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "observedGeneration": found["metadata"]["generation"],
                "lastTransitionTime": found["metadata"]["creationTimestamp"],
            }
            for kind in ("Accepted", "ResolvedRefs")
        ]
        parents = [
            {"parentRef": parent, "controllerName": GATEWAY_CONTROLLER, "conditions": conditions}
            for parent in found["spec"]["parentRefs"]
        ]
        store.update_status(ROUTES, namespace, name, {"parents": parents})
    except ApiError:
        return
