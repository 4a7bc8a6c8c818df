"""The API server: who may ask, what is answered, and errors in the form that clients know."""

from __future__ import annotations

import hmac
import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from slipway_sandbox.cluster.api.access_review import access_routes
from slipway_sandbox.cluster.api.discovery import discovery_routes
from slipway_sandbox.cluster.api.object_endpoint import ObjectEndpoint
from slipway_sandbox.cluster.api.pod_endpoint import PodEndpoint
from slipway_sandbox.cluster.errors import ApiError, unauthorized
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.resources import RESOURCES
from slipway_sandbox.cluster.storage.store import ObjectStore

log = logging.getLogger(__name__)

# Open to anyone, as on a real cluster.
_PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
# etcd's limit on one object.
_BODY_MAX_BYTES = 1_500_000


def build_app(store: ObjectStore, logs: PodLogs, token: str) -> web.Application:
    """Return the application that serves `store`; every request but those for health must carry the bearer `token`."""
    app = web.Application(
        middlewares=[_errors_as_status, _authentication(token)], client_max_size=_BODY_MAX_BYTES
    )
    app.add_routes(discovery_routes())
    app.add_routes(access_routes())
    app.add_routes(PodEndpoint(store, logs).routes())
    for resource in RESOURCES:
        app.add_routes(ObjectEndpoint(resource, store).routes())
    return app


def _authentication(token: str) -> Middleware:
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if request.path not in _PUBLIC and not hmac.compare_digest(given, expected):
            raise unauthorized()
        return await handler(request)

    return authenticate


@web.middleware
async def _errors_as_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _status(error)
    except web.HTTPNotFound:
        # A path that nothing serves is answered in plain text, unlike an object that is not there.
        return web.Response(status=404, text="404 page not found\n")
    except web.HTTPMethodNotAllowed as error:
        refused = ApiError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )
        response = _status(refused)
        response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        return response
    except web.HTTPRequestEntityTooLarge:
        message = f"the request is too large: limit is {_BODY_MAX_BYTES} bytes"
        return _status(ApiError(413, "RequestEntityTooLarge", message))
    except (ConnectionError, web.HTTPException):
        raise
    except Exception:
        log.exception("%s %s failed.", request.method, request.path)
        return _status(ApiError(500, "InternalError", "an error on the server has prevented the request"))


def _status(error: ApiError) -> web.Response:
    return web.json_response(error.body(), status=error.status)
