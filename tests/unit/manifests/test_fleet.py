"""include/manifests/fleet: the Service finds the pods that a fleet may fence, and every right given is used."""

from __future__ import annotations

import json
from typing import Any

import yaml

from slipway_core.fleet.fleet_file import FENCE_LABEL, ServiceMembers
from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "fleet"


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def test_service_selects_the_pods_by_the_label_for_fencing() -> None:
    """The Service, the Deployment and its pods have it, with the value that a fenced pod loses."""
    service, deployment = documents("servers.yaml")
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == pods
    assert pods[FENCE_LABEL] == "true"


def test_servers_are_as_a_fleet_asks_for_them() -> None:
    """They load what they are told to, at the ports that a fleet's file has by default, and only the model makes them
    ready."""
    _, deployment = documents("servers.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--model-control-mode=explicit" in container["args"]
    file = ServiceMembers(name="triton")
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"http": file.http_port, "grpc": file.grpc_port}
    assert container["readinessProbe"]["httpGet"] == {"path": "/v2/models/digits/ready", "port": "http"}


def test_role_has_no_wildcard() -> None:
    """Every group, resource and verb is named, and the account is bound to this Role."""
    role, binding = documents("rbac.yaml")
    assert "*" not in json.dumps(role)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
