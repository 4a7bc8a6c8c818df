"""One InferenceService in Knative mode: its revisions' servers, the weights in the router, and its status."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import Any

from slipway_sandbox.kserve.annotations import TAG_ROUTING_ANNOTATION
from slipway_sandbox.kserve.knative import machine
from slipway_sandbox.kserve.knative.service import remove, write
from slipway_sandbox.kserve.knative.status import status_of
from slipway_sandbox.kserve.worker import ServiceWorker, WorkerContext
from slipway_sandbox.services.routing import Backend, Ingress

log = logging.getLogger(__name__)

REVISION_LABEL = "serving.knative.dev/revision"
# How often Knative's autoscaler looks (`tick-interval`).
_AUTOSCALER_PERIOD_S = 2.0


class KnativeWorker(ServiceWorker):
    """Brings together the spec (`machine`), the servers, the status, and the router.

    As in Knative the status tells of the traffic that is intended, before the router has it. Until the router has
    taken it the route's conditions are Unknown.
    """

    mode = "Knative"

    def __init__(self, context: WorkerContext, namespace: str, name: str) -> None:
        super().__init__(context, namespace, name)
        self.predictor = machine.Predictor()
        self._routed: tuple[machine.Target, ...] = ()
        self._intended: tuple[machine.Target, ...] = ()
        self._intended_since = 0.0
        self._idle_since: dict[str, float] = {}

    def backends(self) -> list[Backend]:
        """Return the servers that the router shall know."""
        routed = {target.revision for target in self._routed}
        runs = [run for name, run in self.runs.items() if run.phase == "ready" or name in routed]
        return [self.backend(run.name, run.ports) for run in runs]

    def ingresses(self) -> list[Ingress]:
        """Return the host names: the service's own and Knative's for the weights, one for each tag.

        While a tag leads to a revision that has no users, users' requests are mirrored.
        """
        if not self._routed:
            return []
        suffix = f"{self.namespace}.{self._settings.domain}"
        hosts = (f"{self.name}.{suffix}", f"{self.name}-predictor.{suffix}")
        percents, _ = _ways(self._routed)  # two lines may name one revision
        tagged = [
            Ingress(
                f"{self.namespace}/{self.name}/{target.tag}",
                (f"{target.tag}-{self.name}-predictor.{suffix}",),
                ((target.revision, 100),),
                tag=target.tag,
            )
            for target in self._routed
            if target.tag
        ]
        shown = any(target.tag and not percents[target.revision] for target in self._routed)
        mirror = self._settings.mirror if shown else None
        users = Ingress(f"{self.namespace}/{self.name}", hosts, tuple(percents.items()), mirror=mirror)
        return [users, *tagged]

    async def reconcile(self, service: Mapping[str, Any]) -> None:
        """Bring servers, router and status to what the spec asks for, as far as that is possible now."""
        accepted = machine.accept(self.predictor, service, self._settings.unpropagated_annotations)
        for run in self.runs.values():
            if run.phase in ("ready", "failed"):
                accepted = machine.with_revision(
                    accepted, run.name, phase=run.phase, message=run.message, exit_code=run.exit_code
                )
        annotations = service["metadata"].get("annotations") or {}
        settled = machine.settle(
            accepted,
            service["spec"]["predictor"].get("canaryTrafficPercent"),
            tag_latest=annotations.get(TAG_ROUTING_ANNOTATION) == "true",
        )
        self.predictor = machine.forget_old(settled)
        self._start()
        service = self._write_status(service)
        await self._route()
        self.save_state()
        self._write_status(service)
        await self._scale_down()

    def _write_status(self, service: Mapping[str, Any]) -> dict[str, Any]:
        """Write the status, and return the service with it."""
        is_routed = _ways(self._routed) == _ways(self.predictor.traffic)
        write(self._store, self.predictor, service, is_routed=is_routed)
        status = status_of(self.predictor, **self.status_arguments(service), is_routed=is_routed)
        self.write_status(status)
        return {**service, "status": status}

    def pod_labels(self, run: str) -> Mapping[str, str]:
        """Return Knative's labels of a revision's pods."""
        return {REVISION_LABEL: run, "app": run}

    def reset(self) -> None:
        """Forget all state and all routes, as before the first reconciliation."""
        self.predictor, self._routed, self._intended = machine.Predictor(), (), ()
        self._idle_since.clear()
        remove(self._store, self.namespace, self.name)

    def state_to_save(self) -> dict[str, Any]:
        """Return the state that a later controller needs, as JSON."""
        routed = [dataclasses.asdict(target) for target in self._routed]
        return {**dataclasses.asdict(self.predictor), "routed": routed}

    def restore_state(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `state_to_save` returned."""
        revisions = tuple(machine.Revision(**one) for one in kept["revisions"])
        traffic = tuple(machine.Target(**one) for one in kept["traffic"])
        predictor = {key: value for key, value in kept.items() if key != "routed"}
        self.predictor = machine.Predictor(**{**predictor, "revisions": revisions, "traffic": traffic})
        self._routed = tuple(machine.Target(**one) for one in kept["routed"])

    def _needed(self) -> set[str]:
        """Return the names of the revisions that must run: also those that only the router still leads to."""
        known = {one.name for one in self.predictor.revisions}
        return self.predictor.needed() | ({target.revision for target in self._routed} & known)

    def _start(self) -> None:
        """Start every revision that must run and does not."""
        for name in self._needed():
            self._idle_since.pop(name, None)
            self.start_run(name, self.predictor.revision(name).storage_uri)

    def _waits_for_a_server(self) -> bool:
        """Return whether traffic would begin to flow to a revision that cannot answer yet.

        Knative's activator would hold the requests; here they go where they went until the server is up.
        """
        routed = {target.revision for target in self._routed if target.percent}
        return any(
            target.revision not in routed and self.runs[target.revision].phase != "ready"
            for target in self.predictor.traffic
            if target.percent or target.tag
        )

    def _ingress_acts(self) -> bool:
        """Return whether the ingress takes the intended traffic now; have the worker look again when it will."""
        intended, lag_s = self.predictor.traffic, self._settings.ingress_lag_s
        if _ways(intended) == _ways(self._routed):
            return True
        if _ways(intended) != _ways(self._intended):
            self._intended, self._intended_since = intended, time.monotonic()
        if lag_s is None or self._waits_for_a_server():
            return False
        left_s = self._intended_since + lag_s - time.monotonic()
        if left_s > 0:
            self.wake_after(left_s + 0.01)
        return left_s <= 0

    async def _route(self) -> None:
        """Have the router do what the ingress has taken; servers may have come back at other ports."""
        before = self._routed
        if self._ingress_acts():
            self._routed = self.predictor.traffic
        if not self._routed:
            return
        try:
            await self.route()
        except BaseException:
            self._routed = before
            raise

    async def _scale_down(self) -> None:
        """End the revisions that have had no part in the traffic for the grace period, and nobody on them.

        As Knative's autoscaler sees it, a stream that is open is concurrency: its revision is not scaled to zero.
        """
        needed = self._needed()
        idle = [one for one in self.runs if one not in needed]
        open_requests = await self._context.open_requests() if idle else {}
        for name in idle:
            if open_requests.get(name):
                self._idle_since.pop(name, None)
                self.wake_after(_AUTOSCALER_PERIOD_S)
                continue
            since = self._idle_since.setdefault(name, time.monotonic())
            left_s = since + self._settings.scale_down_grace_s - time.monotonic()
            if left_s > 0:
                self.wake_after(left_s + 0.01)
                continue
            log.info("revision %s: no traffic, scaled down", name)
            self._idle_since.pop(name)
            self.retire(name)


def _ways(targets: tuple[machine.Target, ...]) -> tuple[dict[str, int], dict[str, str]]:
    """Return what of the traffic an ingress acts on: the percent of each revision, and where each tag leads."""
    percents: dict[str, int] = {}
    for target in targets:
        percents[target.revision] = percents.get(target.revision, 0) + target.percent
    return percents, {target.tag: target.revision for target in targets if target.tag}
