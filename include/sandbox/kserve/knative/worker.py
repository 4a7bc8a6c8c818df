"""One InferenceService in Knative mode: its revisions' servers, the weights in the router, and its status."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import Any

from include.sandbox.kserve.annotations import TAG_ROUTING_ANNOTATION
from include.sandbox.kserve.knative import machine
from include.sandbox.kserve.knative.status import status_of
from include.sandbox.kserve.worker import ServiceWorker, WorkerContext
from include.sandbox.services.routing import Backend, Ingress

log = logging.getLogger(__name__)


class KnativeWorker(ServiceWorker):
    """Brings together, in this order: the spec (`knative`), the servers, the router, and the status.

    Of traffic the status says only what the router has already taken.
    """

    mode = "Knative"

    def __init__(self, context: WorkerContext, namespace: str, name: str) -> None:
        super().__init__(context, namespace, name)
        self.predictor = machine.Predictor()
        self._routed: tuple[machine.Target, ...] = ()
        self._idle_since: dict[str, float] = {}

    def backends(self) -> list[Backend]:
        """Return the servers that the router shall know."""
        routed = {target.revision for target in self._routed}
        runs = [run for name, run in self.runs.items() if run.phase == "ready" or name in routed]
        return [Backend(run.name, run.ports.http, run.ports.grpc) for run in runs]

    def ingresses(self) -> list[Ingress]:
        """Return the host names: the service's own and Knative's for the weights, one for each tag.

        While a tag leads to a revision that has no users, users' requests are mirrored.
        """
        if not self._routed:
            return []
        suffix = f"{self.namespace}.{self._settings.domain}"
        hosts = (f"{self.name}.{suffix}", f"{self.name}-predictor.{suffix}")
        percents: dict[str, int] = {}
        for target in self._routed:  # two lines may name one revision
            percents[target.revision] = percents.get(target.revision, 0) + target.percent
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
        self._start(settled)
        if self._waits_for_a_server(settled):
            # Knative's activator would hold the requests; here traffic stays where it is until the server is up.
            self.predictor = accepted
        else:
            await self._route(settled)
            self.predictor = machine.forget_old(settled)
        self.save_state()
        self.write_status(status_of(self.predictor, **self.status_arguments(service)))
        self._scale_down(settled.needed() | self.predictor.needed())

    def reset(self) -> None:
        """Forget all state and all routes, as before the first reconciliation."""
        self.predictor, self._routed = machine.Predictor(), ()
        self._idle_since.clear()

    def state_to_save(self) -> dict[str, Any]:
        """Return the state that a later controller needs, as JSON."""
        return dataclasses.asdict(self.predictor)

    def restore_state(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `state_to_save` returned."""
        revisions = tuple(machine.Revision(**one) for one in kept["revisions"])
        traffic = tuple(machine.Target(**one) for one in kept["traffic"])
        self.predictor = machine.Predictor(**{**kept, "revisions": revisions, "traffic": traffic})

    def _start(self, predictor: machine.Predictor) -> None:
        """Start every revision that must run and does not."""
        for name in predictor.needed():
            self._idle_since.pop(name, None)
            self.start_run(name, predictor.revision(name).storage_uri)

    def _waits_for_a_server(self, predictor: machine.Predictor) -> bool:
        """Tell whether traffic would begin to flow to a revision that cannot answer yet."""
        routed = {target.revision for target in self._routed if target.percent}
        return any(
            target.revision not in routed and self.runs[target.revision].phase != "ready"
            for target in predictor.traffic
            if target.percent or target.tag
        )

    async def _route(self, predictor: machine.Predictor) -> None:
        before = self._routed
        self._routed = predictor.traffic
        try:
            await self.route()
        except BaseException:
            self._routed = before
            raise

    def _scale_down(self, needed: set[str]) -> None:
        """End the revisions that have had no part in the traffic for the grace period."""
        for name in [one for one in self.runs if one not in needed]:
            since = self._idle_since.setdefault(name, time.monotonic())
            left_s = since + self._settings.scale_down_grace_s - time.monotonic()
            if left_s > 0:
                self.wake_after(left_s + 0.01)
                continue
            log.info("revision %s: no traffic, scaled down", name)
            self._idle_since.pop(name)
            self.retire(name)
