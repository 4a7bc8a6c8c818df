"""What a client asks before it asks for anything: health, version, groups and resources."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from slipway_sandbox.cluster.resources import RESOURCES, Resource

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery_routes() -> list[web.RouteDef]:
    """Return the URLs served here; none of them needs the store."""
    groups = sorted({(resource.group, resource.version) for resource in RESOURCES if resource.group})
    answers = {
        "/version": _version(),
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": _group_list(groups),
        "/api/v1": _resource_list("", "v1"),
    }
    for group, version in groups:
        answers[f"/apis/{group}"] = _group(group, version) | {"kind": "APIGroup"}
        answers[f"/apis/{group}/{version}"] = _resource_list(group, version)
    routes = [web.get(path, _healthy) for path in ("/healthz", "/livez", "/readyz")]
    for path, body in answers.items():
        # Clients ask with and without the slash.
        routes += [web.get(path, _answering(body)), web.get(f"{path}/", _answering(body))]
    return routes


def _answering(body: dict[str, Any]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(body)

    return answer


async def _healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _version() -> dict[str, Any]:
    # The version whose behavior the emulator follows, marked so that nobody takes it for the real one. The
    # official client insists on the other fields.
    return {
        "major": "1",
        "minor": "34",
        "gitVersion": "v1.34.0+slipway.emulated",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2025-08-27T10:09:04Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _group_list(groups: list[tuple[str, str]]) -> dict[str, Any]:
    listed = [_group(group, version) for group, version in groups]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def _group(group: str, version: str) -> dict[str, Any]:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"apiVersion": "v1", "name": group, "versions": [entry], "preferredVersion": entry}


def _resource_list(group: str, version: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for resource in RESOURCES:
        if (resource.group, resource.version) == (group, version):
            verbs = ["get", "list", "watch"] if resource.read_only else _VERBS
            resources.append(_resource(resource, resource.plural, verbs))
            if resource.has_status and not resource.read_only:
                resources.append(_resource(resource, f"{resource.plural}/status", ["get", "patch", "update"]))
            if resource.plural == "pods":
                resources.append(_resource(resource, "pods/log", ["get"]))
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }


def _resource(resource: Resource, name: str, verbs: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "shortNames": list(resource.short_names),
        "verbs": verbs,
    }
