"""The KServe controller over a store of objects, with what tests do to it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.kserve.controller import KServeController, KServeSettings
from tests.support.serving.clients import ask_http
from tests.support.serving.envoy import Envoy

KIND, NAMESPACE, NAME = "inferenceservices", "models", "table"
FIRST, SECOND, THIRD = (f"table-predictor-0000{number}" for number in (1, 2, 3))


@dataclass
class Cluster:
    """A store, a controller over it, and what tests do with them."""

    store: ObjectStore
    settings: KServeSettings
    envoy: Envoy
    controller: KServeController | None = None
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the controller."""
        self.controller = KServeController(self.store, self.settings)
        self.controller.publish_config()
        self._task = asyncio.get_running_loop().create_task(self.controller.run())

    async def stop(self) -> None:
        """Stop the controller and its servers."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        """Stop the controller, and start one with the settings of now."""
        await self.stop()
        self.start()

    def create(self, uri: str) -> None:
        """Create the InferenceService."""
        model = {"modelFormat": {"name": "triton"}, "storageUri": uri}
        self.store.create(
            {
                "apiVersion": "serving.kserve.io/v1beta1",
                "kind": "InferenceService",
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": {"predictor": {"model": model}},
            }
        )

    def patch(self, uri: str | None = None, **percent: int | None) -> None:
        """Patch the storageUri, the percent (None removes it), or both at once."""
        predictor: dict[str, Any] = {"canaryTrafficPercent": percent["percent"]} if percent else {}
        if uri is not None:
            predictor["model"] = {"storageUri": uri}
        self.store.merge_patch(KIND, NAMESPACE, NAME, {"spec": {"predictor": predictor}})

    def status(self) -> Mapping[str, Any]:
        """The InferenceService's status."""
        status: Mapping[str, Any] = self.store.get(KIND, NAMESPACE, NAME).get("status", {})
        return status

    def route(self) -> Mapping[str, Any]:
        """The condition that tells whether the router does what the traffic says; empty where there is none."""
        conditions = self.status().get("conditions", [])
        return next((one for one in conditions if one["type"] == "PredictorRouteReady"), {})

    def shares(self) -> dict[str, int]:
        """The intended traffic as {revision: percent}."""
        component = self.status().get("components", {}).get("predictor", {})
        shares: dict[str, int] = {}
        for line in component.get("traffic", []):  # two lines may name one revision
            shares[line["revisionName"]] = shares.get(line["revisionName"], 0) + line["percent"]
        return shares

    async def until(self, condition: Callable[[], bool], what: str, limit_s: float = 90.0) -> None:
        """Wait until a condition holds; fail with the status after `limit_s`."""
        limit = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < limit, f"waited in vain for {what}; the status is {self.status()}"
            await asyncio.sleep(0.02)

    async def until_shares(self, **shares: int) -> None:
        """Wait until the traffic is `first=…, second=…, third=…`, and the route ready with it."""
        wanted = _by_revision(shares)
        await self.until(
            lambda: self.shares() == wanted and self.route().get("status") == "True", f"traffic {wanted}"
        )

    async def until_intended(self, **shares: int) -> None:
        """Wait until the traffic is to be `first=…, second=…, third=…`, whatever the router does."""
        wanted = _by_revision(shares)
        await self.until(lambda: self.shares() == wanted, f"intended traffic {wanted}")

    async def factor(self) -> float:
        """Ask the model once over HTTP through the router and return its factor."""
        status, factor = await asyncio.to_thread(ask_http, self.envoy.ingress_port)
        assert status == 200
        return factor

    async def until_ended(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a server's process has ended."""
        limit = time.monotonic() + 90
        while process.poll() is None:
            assert time.monotonic() < limit, "the server is still there"
            await asyncio.sleep(0.05)

    async def until_answered(self) -> None:
        """Wait until ten answers of the router in a row are a model's: two revisions may share its users."""

        async def answered() -> bool:
            return (await asyncio.to_thread(ask_http, self.envoy.ingress_port))[0] == 200

        in_a_row = 0
        for _ in range(200):
            in_a_row = in_a_row + 1 if await answered() else 0
            if in_a_row == 10:
                return
            if not in_a_row:
                await asyncio.sleep(0.05)
        raise AssertionError("the router did not answer for the model")

    def run_of(self, revision: str) -> Any:
        """The running revision of a name."""
        assert self.controller is not None
        return self.controller._services[(NAMESPACE, NAME)].runs[revision]

    def running(self) -> set[str]:
        """The names of the revisions that have a server."""
        assert self.controller is not None
        return set(self.controller._services[(NAMESPACE, NAME)].runs)


def _by_revision(shares: Mapping[str, int]) -> dict[str, int]:
    names = {"first": FIRST, "second": SECOND, "third": THIRD}
    return {names[name]: percent for name, percent in shares.items()}
