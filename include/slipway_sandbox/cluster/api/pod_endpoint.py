"""What only pods have: logs, and the ways into a container, which are all closed."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from slipway_sandbox.cluster.api.requests import flag, moment, number
from slipway_sandbox.cluster.errors import ApiError, bad_request
from slipway_sandbox.cluster.node.container_log import LogQuery, seconds_ago
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.resources import PODS
from slipway_sandbox.cluster.storage.store import ObjectStore


class PodEndpoint:
    """Serves the subresources of pods."""

    def __init__(self, store: ObjectStore, logs: PodLogs) -> None:
        self._store = store
        self._logs = logs

    def routes(self) -> list[web.RouteDef]:
        """Return the URLs served here."""
        pod = f"{PODS.base_path}/namespaces/{{namespace}}/pods/{{name}}"
        closed = [
            web.route(method, f"{pod}/{subresource}", self.refuse)
            for subresource in ("exec", "attach", "portforward")
            for method in ("GET", "POST")
        ]
        return [web.get(f"{pod}/log", self.log), *closed]

    async def refuse(self, request: web.Request) -> web.Response:
        """Refuse a request to run a command in a container, or to reach into it: always 403."""
        name, subresource = request.match_info["name"], request.path.rsplit("/", 1)[-1]
        self._store.get("pods", request.match_info["namespace"], name)
        raise ApiError(
            403,
            "Forbidden",
            f'pods "{name}" is forbidden: cannot create resource "pods/{subresource}" in API group "": '
            "containers are processes of this machine here, and no command is run in them from outside",
            {"name": name, "kind": "pods"},
        )

    async def log(self, request: web.Request) -> web.StreamResponse:
        """Answer GET of a container's log, as a whole or followed."""
        pod = self._store.get("pods", request.match_info["namespace"], request.match_info["name"])
        container = self._container(pod, request.query.get("container"))
        if flag(request, "previous"):
            name = pod["metadata"]["name"]
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        query = self._query(request)
        self._require_started(pod, container)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for chunk in self._logs.of(pod, container).read(query):
            await response.write(chunk)
        await response.write_eof()
        return response

    def _query(self, request: web.Request) -> LogQuery:
        seconds = number(request, "sinceSeconds")
        return LogQuery(
            follow=flag(request, "follow"),
            timestamps=flag(request, "timestamps"),
            since=seconds_ago(seconds) if seconds is not None else moment(request, "sinceTime"),
            tail_lines=number(request, "tailLines"),
            limit_bytes=number(request, "limitBytes"),
        )

    def _container(self, pod: dict[str, Any], asked: str | None) -> str:
        names = [container["name"] for container in pod["spec"]["containers"]]
        name = pod["metadata"]["name"]
        if asked and asked in names:
            return asked
        if asked:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        if len(names) > 1:
            raise bad_request(
                f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
            )
        return str(names[0])

    def _require_started(self, pod: dict[str, Any], container: str) -> None:
        for status in pod["status"].get("containerStatuses", []):
            if status["name"] == container and "waiting" not in status["state"]:
                return
            if status["name"] == container:
                reason = status["state"]["waiting"]["reason"]
                raise bad_request(
                    f'container "{container}" in pod "{pod["metadata"]["name"]}" is waiting to start: {reason}'
                )
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
