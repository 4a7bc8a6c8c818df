"""A cluster in memory: the emulator's store, its Knative state machine, a clock that tests move, and errors at will."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout import lease
from slipway_core.rollout.dialects.knative.resources import REVISIONS
from slipway_core.rollout.lease import Lease, lease_manifest, parse_lease, renewal
from slipway_core.rollout.next_action import (
    Done,
    Goal,
    Observed,
    Patch,
    StartCanary,
    next_action,
)
from slipway_core.rollout.reading import Reading, Resource
from slipway_guard.cluster import Snapshot
from slipway_guard.watch import Guard, Terms
from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.kserve.knative import machine as knative
from slipway_sandbox.kserve.knative.service import knative_service, revisions
from slipway_sandbox.kserve.knative.status import status_of
from tests.support.rollout.reading import observe

NAMESPACE, NAME, RELEASE = "models", "digits", "digits-3"
STABLE_URI = "s3://slipway/models/digits/2/repository"
CANDIDATE_URI = "s3://slipway/models/digits/3/repository"
SERVICES = "inferenceservices"
LEASE_S = 60
EPOCH = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


class KnativeController:
    """KServe's and Knative's state machine for one InferenceService, with revisions that come up at once."""

    def __init__(self) -> None:
        self._predictor = knative.Predictor()
        self._routed: tuple[knative.Target, ...] = ()

    def behind(self, service: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The Knative Service and its revisions."""
        is_routed = self._routed == self._predictor.traffic
        found = knative_service(self._predictor, service, is_routed=is_routed)
        return found, revisions(self._predictor, service)

    def status(self, service: Mapping[str, Any], *, ingress_is_alive: bool = True) -> dict[str, Any]:
        """Take note of the spec, and return the status that follows; users are led on by an ingress that is alive."""
        accepted = knative.accept(self._predictor, service)
        for revision in accepted.revisions:
            accepted = knative.with_revision(accepted, revision.name, phase="ready")
        percent = service["spec"]["predictor"].get("canaryTrafficPercent")
        self._predictor = knative.settle(accepted, percent)
        if ingress_is_alive:
            self._routed = self._predictor.traffic
        metadata = service["metadata"]
        return status_of(
            self._predictor,
            name=metadata["name"],
            namespace=metadata["namespace"],
            domain="sandbox.slipway",
            previous=service.get("status") or {},
            now="2026-11-20T10:00:00Z",
            is_routed=self._routed == self._predictor.traffic,
        )


def service_manifest(name: str = NAME, namespace: str = NAMESPACE, uri: str = STABLE_URI) -> dict[str, Any]:
    """An InferenceService in Knative mode that serves one version."""
    model = {"modelFormat": {"name": "triton"}, "runtime": "kserve-tritonserver", "storageUri": uri}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"serving.kserve.io/deploymentMode": "Knative"},
        },
        "spec": {"predictor": {"model": model}},
    }


class GuardedCanary:
    """Version 2 of `digits` is live, and version 3 gets `weight` percent; the release `digits-3` has a lease."""

    def __init__(self, weight: int = 20, *, with_lease: bool = True) -> None:
        self.store = ObjectStore()
        self.now_s = 0.0
        self.holder_skew = timedelta()
        self.controller_is_alive = True
        self.ingress_is_alive = True
        self._controllers: dict[str, KnativeController] = {}
        self.store.create(service_manifest())
        self.reconcile()
        if with_lease:
            self.acquire()
        if weight:
            self.drive(StartCanary(CANDIDATE_URI, weight, release_id=RELEASE, version=3))

    # --- what a release does ---

    def acquire(self) -> None:
        """Create the lease."""
        manifest = lease_manifest(
            NAME,
            NAMESPACE,
            holder=RELEASE,
            now=self.holder_now(),
            lease_s=LEASE_S,
            candidate_uri=CANDIDATE_URI,
            stable_uri=STABLE_URI,
        )
        self.store.create(manifest)

    def holder_now(self) -> datetime:
        """The release's clock, which may be hours away from everybody else's."""
        return EPOCH + timedelta(seconds=self.now_s) + self.holder_skew

    def renew(self, seen: Lease | None = None, *, lease_s: int = 0) -> bool:
        """Renew the lease as it was seen (or is), perhaps for longer than before; False: a conflict."""
        seen = seen or self.lease()
        assert seen is not None
        return self._patch(lease.PLURAL, seen.name, renewal(seen, self.holder_now(), lease_s=lease_s))

    def drive(self, goal: Goal) -> None:
        """Take turns until the goal is reached."""
        for _ in range(20):
            action = next_action(goal, self.observed())
            if isinstance(action, Done):
                return
            if isinstance(action, Patch):
                self._patch(SERVICES, NAME, action.body)
            self.reconcile()
        raise AssertionError(f"{goal} was not reached: {action}")

    # --- what is there ---

    def observed(self, name: str = NAME) -> Observed:
        """The InferenceService, and what lies behind it."""
        service = self.store.get(SERVICES, NAMESPACE, name)
        found, made = self.behind(service)
        return observe(service, behind=found, revisions=made)

    def behind(self, service: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """The Knative Service of an InferenceService and its revisions, once KServe has made any."""
        controller = self._controllers.get(service["metadata"]["uid"])
        return (None, []) if controller is None else controller.behind(service)

    def lease(self) -> Lease | None:
        """The lease."""
        try:
            return parse_lease(self.store.get(lease.PLURAL, NAMESPACE, lease.lease_name(NAME)))
        except ApiError:
            return None

    def events(self) -> list[dict[str, Any]]:
        """The notices that people got."""
        return self.store.list("events", NAMESPACE)

    def candidate_share(self) -> int:
        """The percent of users that are led to version 3."""
        observed = self.observed()
        return 0 if observed.storage_uri != CANDIDATE_URI else observed.share(observed.latest_created)

    # --- what happens ---

    def reconcile(self) -> None:
        """Let KServe act, if it is alive."""
        if not self.controller_is_alive:
            return
        for service in self.store.list(SERVICES):
            metadata = service["metadata"]
            controller = self._controllers.setdefault(metadata["uid"], KnativeController())
            status = controller.status(service, ingress_is_alive=self.ingress_is_alive)
            self.store.update_status(SERVICES, metadata["namespace"], metadata["name"], status)

    def pass_time(self, seconds: float, *guards: Guard, step_s: float = 1.0, renew: bool = False) -> None:
        """Let time pass while guards look and KServe acts at every step; `renew` is a release that is alive."""
        for number in range(round(seconds / step_s)):
            self.now_s += step_s
            if renew and number % 20 == 0:
                self.renew()
            for guard in guards:
                guard.look()
            self.reconcile()

    def guard(self, cluster: StoreCluster | None = None, **terms: float) -> Guard:
        """A guard without memory."""
        return Guard(
            cluster or StoreCluster(self),
            Terms(**{"poll_s": 1.0, **terms}),
            clock=lambda: self.now_s,
            now=lambda: EPOCH + timedelta(seconds=self.now_s),
        )

    def _patch(self, kind: str, name: str, body: Mapping[str, Any]) -> bool:
        try:
            self.store.merge_patch(kind, NAMESPACE, name, body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True


class StoreCluster:
    """What a guard sees of a `GuardedCanary`.

    `trouble` names requests that fail: `before` they have an effect, or `after` it (the answer is lost). `writes`
    are those that had one, in their order. `before_write` is called with a request's name.
    """

    def __init__(self, canary: GuardedCanary) -> None:
        self._world = canary
        self.trouble: dict[str, str] = {}
        self.writes: list[str] = []
        self.before_write: dict[str, Any] = {}
        self.server_time: datetime | None = None

    def snapshot(self) -> Snapshot:
        """Lists of the store's objects."""
        self._fail("snapshot", "before")
        leases = self._world.store.list(lease.PLURAL, None, lease.SELECTOR)
        services = self._world.store.list(SERVICES)
        return Snapshot(tuple(services), tuple(leases), server_time=self.server_time)

    def patch_service(
        self, namespace: str, name: str, body: Mapping[str, Any], limit_s: float | None = None
    ) -> bool:
        """A merge patch of the store's object."""
        return self._write("patch_service", SERVICES, namespace, name, body)

    def read(self, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
        """As KServe and Knative have made it; there is no Knative Service for whoever would write its traffic."""
        made = [
            one
            for service in self._world.store.list(SERVICES)
            for one in self._world.behind(service)[1]
            if reading.resource == REVISIONS
        ]
        return tuple(one for name in reading.names or () for one in made if one["metadata"]["name"] == name)

    def patch_made(self, namespace: str, resource: Resource, name: str, body: Mapping[str, Any]) -> bool:
        """There is none."""
        return False

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """A merge patch of the store's object."""
        return self._write("patch_lease", lease.PLURAL, namespace, name, body)

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """A new object in the store."""
        return self._write("create_event", "events", namespace, "", body)

    def _write(self, request: str, kind: str, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        if request in self.before_write:
            self.before_write.pop(request)()
        self._fail(request, "before")
        try:
            if name:
                self._world.store.merge_patch(kind, namespace, name, body)
            else:
                self._world.store.create(body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise ClusterUnavailableError(str(error)) from error
            return False
        self.writes.append(request)
        self._fail(request, "after")
        return True

    def _fail(self, request: str, when: str) -> None:
        if self.trouble.get(request) == when:
            raise ClusterUnavailableError(f"{request} failed {when} it had an effect")
