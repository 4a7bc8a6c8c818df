"""Who may do what: an account that may do all with the objects that are known here, and nothing with Secrets."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from slipway_sandbox.cluster.errors import ApiError, bad_request
from slipway_sandbox.cluster.resources import RESOURCES

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_GRANTED = frozenset((resource.group, resource.plural) for resource in RESOURCES)


def access_routes() -> list[web.RouteDef]:
    """Return the URLs served here; none of them needs the store."""
    return [web.post(REVIEWS, _review), web.get("/api/v1/namespaces/{namespace}/secrets", _no_secrets)]


async def _review(request: web.Request) -> web.Response:
    try:
        body: dict[str, Any] = await request.json()
        asked = dict(body["spec"]["resourceAttributes"])
    except (ValueError, KeyError, TypeError):
        raise bad_request("a SelfSubjectAccessReview needs spec.resourceAttributes") from None
    is_allowed = (str(asked.get("group", "")), str(asked.get("resource", ""))) in _GRANTED
    answer = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": body["spec"],
        "status": {"allowed": is_allowed},
    }
    return web.json_response(answer, status=201)


async def _no_secrets(request: web.Request) -> web.Response:
    namespace = request.match_info["namespace"]
    message = (
        f'secrets is forbidden: User "slipway" cannot list resource "secrets" in API group "" in the namespace '
        f'"{namespace}"'
    )
    raise ApiError(403, "Forbidden", message, {"kind": "secrets"})
