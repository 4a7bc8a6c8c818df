"""The guard in KServe's Knative mode while KServe hangs: the API asks its webhooks, and Knative goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.actions import FALLBACK_AFTER_S, ObjectPatch, PatchMade
from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES
from slipway_core.rollout.reading import Reading, Resource
from slipway_guard.cluster import Snapshot
from slipway_guard.watch import Guard, Sight, Terms
from slipway_sandbox.lab.simulation.cluster_model import ConflictError
from slipway_sandbox.lab.simulation.edits import V2
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.rollout.knative_steps import canary_at

_WEBHOOK_S = 10.0


class KnativeCluster:
    """One InferenceService in Knative mode, without any lease; `clock` is everybody's."""

    def __init__(self, model: KnativeModel) -> None:
        self.model = model
        self.clock = 0.0
        self.hangs = True
        self.events: list[Mapping[str, Any]] = []
        self.limits: list[float | None] = []

    def snapshot(self) -> Snapshot:
        """The model's object."""
        return Snapshot((self.model.as_object(),), ())

    def patch_service(
        self, namespace: str, name: str, body: Mapping[str, Any], limit_s: float | None = None
    ) -> bool:
        """A patch of the model, unless KServe hangs."""
        self.limits.append(limit_s)
        if self.hangs:
            self.clock += limit_s or _WEBHOOK_S
            raise ClusterUnavailableError("patching failed", found="no answer")
        self.model.patch(dict(body))
        return True

    def read(self, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
        """The model's Knative Service, or revisions of it."""
        if reading.resource == KNATIVE_SERVICES:
            return (self.model.knative_service(),) if reading.names == ("digits-predictor",) else ()
        return tuple(self.model.revision_objects(reading.names or ()))

    def patch_made(self, namespace: str, resource: Resource, name: str, body: Mapping[str, Any]) -> bool:
        """A patch of the model's Knative Service."""
        try:
            self.model.patch_made(PatchMade(resource, (ObjectPatch(name, body),), "", ""))
        except ConflictError:
            return False
        return True

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """There is none."""
        return False

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Keep the event."""
        self.events.append(body)
        return True


def test_the_guard_writes_the_knative_service_where_kserve_hangs() -> None:
    """Users are off after seconds; that they are safe is told when the spec says 0 % and KServe has carried it on."""
    cluster = KnativeCluster(canary_at(20))
    guard = Guard(cluster, Terms(missing_lease_s=10.0, poll_s=1.0), clock=lambda: cluster.clock)
    while not cluster.limits:
        guard.look()
        cluster.clock += 1
    assert cluster.limits == [FALLBACK_AFTER_S]
    guard.look()
    cluster.model.step("route")
    cluster.model.step("ingress")
    assert cluster.model.users() == {V2: 100}
    assert cluster.model.read().canary_percent == 20
    guard.look()
    assert cluster.limits[1:] == [None]
    assert cluster.events == []
    cluster.hangs = False
    for _ in range(4):
        guard.look()
        cluster.model.settle()
        cluster.clock += 1
    assert cluster.model.read().canary_percent == 0
    assert guard.look() == Sight()
    assert len(cluster.events) == 1
