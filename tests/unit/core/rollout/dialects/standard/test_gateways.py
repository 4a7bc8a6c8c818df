"""What is said of a gateway before a canary: what is known of weight 0 there, or that nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.rollout.dialects.standard.gateways import KNOWN, controllers_of, gateway_notes


def route(*controllers: Any) -> dict[str, Any]:
    return {"status": {"parents": [{"controllerName": one} for one in controllers]}}


@pytest.mark.parametrize("controller", KNOWN)
def test_what_is_known_is_said(controller: str) -> None:
    """Leaks at weight 0, and a data plane that comes after the condition."""
    assert gateway_notes([route(controller), route(controller)]) == (KNOWN[controller],)


def test_a_gateway_of_which_nothing_is_known_is_named() -> None:
    """Silence is no promise."""
    (said,) = gateway_notes([route("example.com/gateway")])
    assert "It is unknown how the gateway" in said
    assert "example.com/gateway" in said


def test_several_gateways_are_each_told_of() -> None:
    """One route may hang on more than one."""
    assert len(gateway_notes([route("example.com/a", "consul.hashicorp.com/gateway-controller")])) == 2


@pytest.mark.parametrize(
    "routes", [[], [{}], [{"status": None}], [route(None, 3)], [{"status": {"parents": "x"}}]]
)
def test_where_no_gateway_tells_nothing_is_known(routes: list[dict[str, Any]]) -> None:
    """Whatever the status holds; nothing is raised."""
    assert controllers_of(routes) == ()
    assert "unknown how it handles weight 0" in gateway_notes(routes)[0]
