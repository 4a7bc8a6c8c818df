"""The REST verbs on one kind of object: list, watch, get, create, replace, patch, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from slipway_sandbox.cluster.admission.validation import Admission, strict_decoding_error
from slipway_sandbox.cluster.api.requests import (
    JSON,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    flag,
    is_dry_run,
    read_object,
    read_options,
    read_patch,
)
from slipway_sandbox.cluster.api.watching import stream_changes
from slipway_sandbox.cluster.errors import DecodingError, bad_request, no_version
from slipway_sandbox.cluster.resources import PODS, Resource
from slipway_sandbox.cluster.selectors import Matcher, field_matcher, label_matcher
from slipway_sandbox.cluster.storage.store import ObjectStore


class ObjectEndpoint:
    """Serves one resource out of the store."""

    def __init__(self, resource: Resource, store: ObjectStore) -> None:
        self._resource = resource
        self._store = store

    def routes(self) -> list[web.RouteDef]:
        """Return the URLs of this resource."""
        resource, base = self._resource, self._resource.base_path
        everywhere = f"{base}/{resource.plural}"
        collection = (
            f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else everywhere
        )
        one = f"{collection}/{{name}}"
        routes = [web.get(collection, self.collection), web.get(one, self.read)]
        if resource.namespaced:
            routes.append(web.get(everywhere, self.collection))
        if resource.read_only:
            return routes
        routes += [
            web.post(collection, self.create),
            web.put(one, self.replace),
            web.patch(one, self.patch),
            web.delete(one, self.delete),
        ]
        if resource.has_status:
            status = f"{one}/status"
            routes += [
                web.get(status, self.read),
                web.put(status, self.replace_status),
                web.patch(status, self.patch_status),
            ]
        return routes

    async def collection(self, request: web.Request) -> web.StreamResponse:
        """Answer GET of a collection: a list, or a watch of it."""
        namespace, matches = request.match_info.get("namespace"), self._matcher(request)
        if flag(request, "watch"):
            return await stream_changes(request, self._store, self._resource, namespace, matches)
        items = self._store.select(self._resource, namespace, matches)
        return web.json_response(
            {
                "kind": f"{self._resource.kind}List",
                "apiVersion": self._resource.api_version,
                "metadata": {"resourceVersion": self._store.resource_version},
                "items": items,
            }
        )

    async def read(self, request: web.Request) -> web.Response:
        """Answer GET of one object."""
        return web.json_response(self._store.get(self._resource.plural, *_address(request)))

    async def create(self, request: web.Request) -> web.Response:
        """Answer POST to a collection."""
        obj = await read_object(request, (JSON,), self._resource.kind)
        self._complete(obj, request)
        return self._answer(
            request, lambda dry_run: self._store.create_admitted(obj, dry_run=dry_run), status=201
        )

    async def replace(self, request: web.Request, subresource: str | None = None) -> web.Response:
        """Answer PUT of one object."""
        obj = await read_object(request, (JSON,), self._resource.kind)
        self._complete(obj, request)
        name = request.match_info["name"]
        if self._resource.group and not obj["metadata"].get("resourceVersion"):
            raise no_version(self._resource, name)

        def apply(dry_run: bool) -> Admission:
            return self._store.replace(
                self._resource.plural, *_address(request), obj, subresource, dry_run=dry_run
            )

        return self._answer(request, apply)

    async def replace_status(self, request: web.Request) -> web.Response:
        """Answer PUT of one object's status."""
        return await self.replace(request, "status")

    async def patch(self, request: web.Request, subresource: str | None = None) -> web.Response:
        """Answer PATCH of one object. Lists are replaced whole: the parts of a pod that may change hold none to
        merge.
        """
        accepted = (MERGE_PATCH,) if self._resource.is_custom else (MERGE_PATCH, STRATEGIC_MERGE_PATCH)
        patch = await read_patch(request, accepted)

        def apply(dry_run: bool) -> Admission:
            address = _address(request)
            return self._store.patch_admitted(
                self._resource.plural, *address, patch, subresource, dry_run=dry_run
            )

        try:
            return self._answer(request, apply)
        except DecodingError as error:
            raise error.of_patch() from error

    async def patch_status(self, request: web.Request) -> web.Response:
        """Answer PATCH of one object's status."""
        return await self.patch(request, "status")

    async def delete(self, request: web.Request) -> web.Response:
        """Answer DELETE of one object."""
        options = await read_options(request)
        preconditions = options.get("preconditions") or {}
        grace = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        try:
            grace_s = None if grace is None else int(grace)
        except (TypeError, ValueError) as error:
            raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}: must be an integer") from error
        namespace, name = _address(request)
        if is_dry_run(request) or options.get("dryRun"):
            return web.json_response(self._store.get(self._resource.plural, namespace, name))
        obj = self._store.delete(
            self._resource.plural,
            namespace,
            name,
            grace_period_s=grace_s,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
        )
        if self._resource == PODS or "deletionTimestamp" in obj["metadata"]:
            return web.json_response(obj)
        details = {"name": name, "group": self._resource.group, "kind": self._resource.plural}
        details |= {"uid": obj["metadata"]["uid"]}
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return web.json_response(body)

    def _matcher(self, request: web.Request) -> Matcher:
        by_labels = label_matcher(request.query.get("labelSelector"))
        by_fields = field_matcher(self._resource, request.query.get("fieldSelector"))
        return lambda obj: by_labels(obj) and by_fields(obj)

    def _complete(self, obj: dict[str, Any], request: web.Request) -> None:
        """Fill in what the URL says about a body, and raises ApiError 400 where the two contradict."""
        resource = self._resource
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if (obj["apiVersion"], obj["kind"]) != (resource.api_version, resource.kind):
            raise bad_request(
                f"{obj['kind']} in version {obj['apiVersion']!r} cannot be handled as a {resource.kind}: "
                f"expected {resource.kind} in version {resource.api_version!r}"
            )
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request(f"metadata: expected an object; found {type(metadata).__name__}")
        namespace = request.match_info.get("namespace")
        if not namespace:
            return
        metadata["namespace"] = metadata.get("namespace") or namespace
        if metadata["namespace"] != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    def _answer(
        self, request: web.Request, apply: Callable[[bool], Admission], *, status: int = 200
    ) -> web.Response:
        """Do what `apply(dry_run)` does, and answer with the object; unknown fields are warned of, or
        refused.
        """
        if request.query.get("fieldValidation") == "Strict":
            checked = apply(True)
            if checked.unknown_fields:
                raise strict_decoding_error(self._resource, checked)
        admission = apply(is_dry_run(request))
        response = web.json_response(admission.obj, status=status)
        if request.query.get("fieldValidation") != "Ignore":
            for field in admission.unknown_fields:
                path = field.encode("unicode_escape").decode()
                response.headers.add("Warning", f'299 - "unknown field \\"{path}\\""')
        return response


def _address(request: web.Request) -> tuple[str | None, str]:
    return request.match_info.get("namespace"), request.match_info["name"]
