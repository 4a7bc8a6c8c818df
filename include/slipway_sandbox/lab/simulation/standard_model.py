"""A small model of KServe's Standard mode: the emulator's state machine, driven one step at a time.

KServe's controller works on one InferenceService at a time: it reads it (`sync`, perhaps an old copy, and perhaps
after it died half way), makes Deployments (`reconcile`), writes the HTTPRoutes (`route`) and then the status
(`status`). A Gateway takes the routes when it likes (`gateway`); what it took last is what users get. The autoscalers
look when they like (`scale`), and pods come up one by one (`ready`), or never do.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.registry import observe
from slipway_core.rollout.observation import Observed
from slipway_sandbox.cluster.merge import merge_patched
from slipway_sandbox.kserve.standard import machine as standard
from slipway_sandbox.kserve.standard.deployments import deployments
from slipway_sandbox.kserve.standard.http_routes import http_routes, routed_by
from slipway_sandbox.kserve.standard.status import status_of
from slipway_sandbox.lab.simulation.cluster_model import ConflictError
from slipway_sandbox.lab.simulation.evidence import standard_evidence

Json = dict[str, Any]

# A newly made InferenceService needs these steps, in this order, until nothing changes.
STEPS = ("sync", "reconcile", "route", "status", "gateway", "ready", "scale")


@dataclass
class StandardModel:
    """One InferenceService `digits` and what KServe makes of it.

    `unloadable` URIs never get ready, `missing` pods by Deployment do not answer.
    `weighs` is False for KServe 0.20, which makes canaries but writes no
    weights, and `gateway_api` for a cluster without HTTPRoutes.
    """

    unloadable: frozenset[str] = frozenset()
    missing: Mapping[str, int] = field(default_factory=dict)
    weighs: bool = True
    gateway_api: bool = True

    spec: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=lambda: {"serving.kserve.io/deploymentMode": "Standard"})
    labels: Json = field(default_factory=dict)
    generation: int = 1
    resource_version: int = 1
    deployments_are_seen: bool = True
    own_routes: dict[str, Json] = field(default_factory=dict)
    seen: Json | None = None
    stage: int = 0
    state: standard.Predictor = field(default_factory=standard.Predictor)
    status: Json = field(default_factory=dict)
    route_generation: int = 0
    taken: tuple[standard.Backend, ...] = ()
    taken_generation: int = 0

    def __deepcopy__(self, memo: Mapping[int, Any]) -> StandardModel:
        """Return a copy that goes its own way: everything in it is replaced and never changed, but the routes."""
        return replace(self, own_routes=dict(self.own_routes))

    # --- the API ---

    def create(self, manifest: Json) -> None:
        """Create the InferenceService."""
        self.spec = copy.deepcopy(manifest["spec"])
        self.annotations |= manifest["metadata"].get("annotations", {})

    def patch(self, body: Json) -> None:
        """Apply a merge patch as the API server does: 409 on another resourceVersion, generation only for the
        spec.
        """
        wanted = body["metadata"].get("resourceVersion")
        if wanted is not None and wanted != str(self.resource_version):
            raise ConflictError
        before = self.spec
        self.spec = merge_patched(self.spec, body.get("spec", {}))
        self.annotations = merge_patched(self.annotations, body["metadata"].get("annotations", {}))
        self.generation += self.spec != before
        self.resource_version += 1

    def expose(self, route: Json) -> None:
        """Create an HTTPRoute, or replace it; its Gateway takes it at once."""
        condition = {"type": "Accepted", "status": "True"}
        self.own_routes[route["metadata"]["name"]] = {
            **copy.deepcopy(route),
            "status": {"parents": [{"conditions": [condition]}]},
        }

    def lose(self, backend: str, pods: int) -> None:
        """Have so many pods of a Deployment not answer from now on."""
        self.missing = {**self.missing, backend: pods}
        self.state = standard.with_missing(self.state, self.missing)

    def patch_made(self, action: PatchMade) -> None:
        """Write weights into KServe's HTTPRoutes, which both say the same."""
        if any(
            one.body["metadata"]["resourceVersion"] != str(self.route_generation) for one in action.patches
        ):
            raise ConflictError
        (routed,) = {routed_by(one.body) for one in action.patches}
        self.route_generation += routed != self.state.routed
        self.state = replace(self.state, routed=routed)

    def read(self) -> Observed:
        """Read the InferenceService, its HTTPRoutes and its Deployments as a client does."""
        return observe(self.as_object(), standard_evidence(self.routes(), self.deployments()))

    def deployments(self) -> list[Json] | None:
        """Return the Deployments as the API shows them; None if that is not allowed."""
        return deployments(self.state, self.as_object()) if self.deployments_are_seen else None

    def as_object(self) -> Json:
        """Return the InferenceService as the API shows it."""
        return {
            "metadata": {
                "name": "digits",
                "namespace": "models",
                "uid": "u",
                "resourceVersion": str(self.resource_version),
                "generation": self.generation,
                "annotations": dict(self.annotations),
                "labels": dict(self.labels),
            },
            "spec": copy.deepcopy(self.spec),
            "status": copy.deepcopy(self.status),
        }

    def routes(self) -> list[Json]:
        """Return the HTTPRoutes as the API shows them."""
        if not self.gateway_api:
            return []
        service = self.as_object()
        found = http_routes(self.state, service, "example.org", "kserve/gateway")
        for one in found:
            one["metadata"]["generation"] = self.route_generation
            one["metadata"]["resourceVersion"] = str(self.route_generation)
            condition = {"type": "Accepted", "status": "True", "observedGeneration": self.taken_generation}
            one["status"] = {"parents": [{"conditions": [condition]}]} if self.taken else {}
        return [*found, *copy.deepcopy(list(self.own_routes.values()))]

    # --- what users get ---

    def users(self) -> dict[str, int]:
        """Return the percent of users by URI; what leads to nothing that answers is under ""."""
        return replace(self.state, routed=self.taken).users()

    def led_to(self) -> dict[str, int]:
        """Return the percent of users by Deployment, as the Gateway took it last."""
        return replace(self.state, routed=self.taken).shares()

    def share(self, uri: str) -> int:
        """Return the percent of users who get `uri`."""
        return self.users().get(uri, 0)

    def replicas(self, backend: str) -> int:
        """Return how many replicas a Deployment shall have, 0 where there is none."""
        workload = self.state.workload(backend)
        return workload.target if workload else 0

    def available(self, backend: str) -> int:
        """Return how many pods of a Deployment answer, 0 where there is none."""
        workload = self.state.workload(backend)
        return workload.available if workload else 0

    # --- controllers ---

    @property
    def steps(self) -> tuple[str, ...]:
        """What may happen next."""
        return STEPS

    def step(self, name: str) -> None:
        """Let one of them do one thing; nothing to do is fine."""
        getattr(self, f"_{name}")()

    def settle(self, rounds: int = 4) -> None:
        """Let all of them run until nothing is left to do."""
        for _ in range(rounds):
            for name in STEPS:
                self.step(name)

    def key(self) -> str:
        """Return what decides everything that can still happen, without the counters."""
        seen = self.seen and self.seen["spec"]
        taken_now = self.taken_generation == self.route_generation
        state = replace(self.state, generation=0, last_failure=None)
        return repr([self.spec, seen, self.stage, state, self.taken, taken_now, self.annotations])

    def _sync(self) -> None:
        self.seen, self.stage = self.as_object(), 1

    def _reconcile(self) -> None:
        if self.stage == 1 and self.seen is not None:
            before = standard.with_missing(self.state, self.missing)
            made = standard.reconcile(before, self.seen)
            self.state, self.stage = standard.with_missing(made, self.missing), 2

    def _route(self) -> None:
        if self.stage != 2 or self.seen is None:
            return
        after = standard.route(self.state, self.seen, gateway_api=self.gateway_api and self.weighs)
        self.route_generation += after.routed != self.state.routed
        self.state, self.stage = after, 3

    def _status(self) -> None:
        if self.stage < 2:
            return
        status = status_of(
            self.state, name="digits", namespace="models", domain="example.org", previous={}, now="now"
        )
        self.resource_version += status != self.status
        self.status, self.stage = status, 0

    def _gateway(self) -> None:
        self.taken, self.taken_generation = self.state.routed, self.route_generation

    def _ready(self) -> None:
        """Let one pod come up, or fail to: of those not decided yet first, then of those that are still wanted."""
        for workload in self.state.workloads:
            for pods in workload.pods:
                if pods.phase == "pending":
                    phase = "failed" if pods.storage_uri in self.unloadable else "ready"
                    self.state = standard.with_pods(self.state, workload.name, pods.number, phase=phase)
                    return
        for workload in self.state.workloads:
            if workload.newest.available < workload.replicas - workload.missing:
                self.state = standard.with_one_more(self.state, workload.name)
                return

    def _scale(self) -> None:
        self.state = standard.scaled(self.state)


def standard_live(**settings: Any) -> StandardModel:
    """Return an InferenceService on which v2 has all users.

    `replicas` are stable's minReplicas; `predictor` adds to its predictor.
    """
    replicas, others = settings.pop("replicas", 1), settings.pop("predictor", {})
    model = StandardModel(**settings)
    predictor: Json = {"model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://b/v2"}, **others}
    if replicas is not None:
        predictor["minReplicas"] = replicas
    model.create({"metadata": {}, "spec": {"predictor": predictor}})
    model.settle(rounds=8 + (replicas or 1))
    return model
