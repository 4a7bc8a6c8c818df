"""What is known of gateways that does not stand in Gateway API: how they take weight 0, and when.

A Gateway names its controller in the status of each HTTPRoute. Known is what was measured, or what the project itself
says in an issue or a pull request. Of all others nothing is known, and that is said: weight 0 is then believed when the
route was accepted, and the candidate's requests are counted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slipway_core.rollout.fields import items, mapping, text

KNOWN: Mapping[str, str] = {
    "kgateway.dev/kgateway": (
        "kgateway gives all requests to a backend at weight 0 that is the only one of its rule (kgateway#13833, "
        "closed unmerged). Slipway never leaves one alone there, and ends a rollback only when the route names it no "
        "longer."
    ),
    "consul.hashicorp.com/gateway-controller": (
        "Consul reads weight 0 as 1 in releases before the fix of consul#23216: about one request of a hundred still "
        "reaches the candidate at weight 0, until a rollback has taken it out of the route. Upgrade Consul."
    ),
    "traefik.io/gateway-controller": (
        "Traefik accepts a route before its data plane has it: up to 2 s more were measured with 3.7 "
        "(`providersThrottleDuration`)."
    ),
}


def controllers_of(routes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the controllers that tell of these HTTPRoutes, each once, in their order."""
    names = (
        text(parent.get("controllerName"))
        for route in items(list(routes))
        for parent in items(mapping(route.get("status")).get("parents"))
    )
    return tuple(dict.fromkeys(name for name in names if name))


def gateway_notes(routes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what is known of the Gateways that lead to a service, and of which of them nothing is known."""
    found = controllers_of(routes)
    if not found:
        return ("No Gateway has reported on the HTTPRoutes yet, so it is unknown how it handles weight 0.",)
    return tuple(
        KNOWN.get(
            name,
            f"It is unknown how the gateway {name[:100]} handles weight 0: it was neither measured nor seen to leak. "
            "Requests to the candidate are still counted after weight 0.",
        )
        for name in found
    )
