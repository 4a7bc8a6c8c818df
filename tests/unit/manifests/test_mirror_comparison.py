"""include/manifests/mirror-comparison: the Service finds the comparer, and every mirror leads to the Service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient

from slipway.hooks.mirror_comparison import Listening
from slipway.operators.mirror_comparison import MIRROR_LABEL
from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "mirror-comparison"
(SERVICE,) = yaml.safe_load_all((FOLDER / "service.yaml").read_text(encoding="utf-8"))
HOST = f"{SERVICE['metadata']['name']}.{SERVICE['metadata']['namespace']}.svc.cluster.local"
PORTS = {one["name"]: one["port"] for one in SERVICE["spec"]["ports"]}


def documents(name: str) -> list[dict[str, Any]]:
    """Every object of a file."""
    return [one for one in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")) if one]


def below(value: Any, key: str) -> Iterator[Any]:
    """Every value under a key, however deep."""
    if isinstance(value, dict):
        yield from (found for name, found in value.items() if name == key)
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from below(one, key)


def test_the_service_is_known_to_the_official_client() -> None:
    """Read into the client's model and written again it is the same: no misspelt field is lost."""
    api = ApiClient()
    model = api.deserialize(SimpleNamespace(data=json.dumps(SERVICE)), "V1Service")
    assert api.sanitize_for_serialization(model) == SERVICE


def test_the_service_selects_the_pod_that_the_operator_makes() -> None:
    """Label and port names are the operator's; the port numbers are where the comparer listens by default."""
    assert list(SERVICE["spec"]["selector"]) == [MIRROR_LABEL]
    assert {one["targetPort"] for one in SERVICE["spec"]["ports"]} == {"http", "grpc"}
    assert {"http": Listening().port, "grpc": Listening().grpc_port} == PORTS


def test_istio_mirrors_each_protocol_to_its_port() -> None:
    """gRPC goes to the port of gRPC, all else to that of HTTP, a part of it, and users go on to the same place."""
    (service,) = documents("istio.yaml")
    routes = {one["name"]: one for one in service["spec"]["http"]}
    assert list(routes) == ["grpc", "http"]
    for name, route in routes.items():
        assert route["mirror"] == {"host": HOST, "port": {"number": PORTS[name]}}
        assert 0 < route["mirrorPercentage"]["value"] <= 100
    assert routes["grpc"]["route"] == routes["http"]["route"]
    assert "match" not in routes["http"]


def test_gateway_api_mirrors_each_protocol_to_its_port() -> None:
    """So does the HTTPRoute, whose Gateway's Service may be led to from the route's namespace."""
    route, grant = documents("gateway-api.yaml")
    mirrors = [one["backendRef"] for one in below(route, "requestMirror")]
    assert mirrors == [
        {"name": SERVICE["metadata"]["name"], "port": PORTS[name]} for name in ("grpc", "http")
    ]
    assert route["metadata"]["namespace"] == SERVICE["metadata"]["namespace"]
    for backend in (one for found in below(route, "backendRefs") for one in found):
        assert grant["metadata"]["namespace"] == backend["namespace"]
        assert grant["spec"]["to"] == [{"group": "", "kind": "Service", "name": backend["name"]}]
    assert grant["spec"]["from"][0]["namespace"] == route["metadata"]["namespace"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_envoy_mirrors_each_protocol_to_its_port(protocol: str) -> None:
    """Envoy's clusters for the mirror lead to the Service's ports, and its routes name them."""
    (bootstrap,) = documents("envoy.yaml")
    clusters = {one["name"]: one for one in bootstrap["static_resources"]["clusters"]}
    (address,) = below(clusters[f"mirror_{protocol}"], "socket_address")
    assert address == {"address": HOST, "port_value": PORTS[protocol]}
    routes = [route for found in below(bootstrap, "routes") for route in found]
    (chosen,) = [one["route"] for one in routes if ("grpc" in one["match"]) == (protocol == "grpc")]
    assert chosen["cluster"] == f"ingress_{protocol}"
    assert [one["cluster"] for one in chosen["request_mirror_policies"]] == [f"mirror_{protocol}"]
