"""What can be seen of an InferenceService in the Standard dialect.

A revision is a predictor's Deployment and Service, and its traffic is what the HTTPRoutes' backendRefs say, never
`status.canaryStatuses`, which repeats the spec (`view.py` says what was read of KServe). The stable one is called
rolled out, and slipway's canary, while there is one, is the latest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from slipway_core.rollout.dialects.standard.gateways import gateway_notes
from slipway_core.rollout.dialects.standard.notes import leads_nobody_to, notes_of, own_urls
from slipway_core.rollout.dialects.standard.view import (
    StandardView,
    backend_name,
    predictor_name,
    standard_view,
)
from slipway_core.rollout.fields import common_facts, load_failure, mapping
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reading import Object


@dataclass(frozen=True, kw_only=True)
class StandardObserved(Observed):
    """An InferenceService whose revisions are predictors; `view` is what only this dialect has."""

    dialect: ClassVar[str] = "Standard"

    view: StandardView

    def revision_of(self, storage_uri: str) -> str:
        """Return the revision that serves `storage_uri`, or did before it was rolled back."""
        if self.storage_uri == storage_uri:
            return self.latest_created
        if self.view.stable_uri == storage_uri:
            return self.view.stable_backend
        return backend_name(self.name, predictor_name(storage_uri))

    def is_shielded_from(self, storage_uri: str) -> bool:
        """Return whether no user is led to `storage_uri`: the spec gives it nothing, and no traffic was seen on it."""
        return self.traffic_current and leads_nobody_to(self.view, storage_uri)

    @property
    def growths(self) -> int:
        """How many patches of ours have changed nothing but the candidate's replicas since it began at percent 0."""
        return int(self.view.own is not None and self.view.own.has_grown)

    @property
    def gateway_notes(self) -> tuple[str, ...]:
        """What is known of the Gateways that tell of the HTTPRoutes."""
        return gateway_notes(self.view.routes)

    def pods_refused(self, revision: str) -> str:
        """Return why the cluster makes no more pods of a Deployment; "" if it does, or does not tell."""
        found = None if self.view.deployments is None else self.view.deployments.get(revision)
        return "" if found is None else found.refused


def observe_standard(
    isvc: Object, obstacles: tuple[str, ...], routes: Iterable[Object], deployments: Iterable[Object] | None
) -> StandardObserved:
    """Read an InferenceService in Standard mode.

    :param obstacles: why no canary can work on it.
    :param routes: its HTTPRoutes, among others perhaps.
    :param deployments: its Deployments, likewise; None: they could not be read.
    """
    view = standard_view(isvc, routes, deployments)
    own, stable = view.own, view.stable_backend
    model_status = mapping(mapping(isvc.get("status")).get("modelStatus"))
    candidate_is_up = own is not None and (echo := view.echo(own)) is not None and echo.ready
    stable_is_up = view.predictor_ready or bool(view.route.traffic.get(stable))
    latest = stable if own is None else view.backend(own)
    is_up = view.predictor_ready if own is None else candidate_is_up
    return StandardObserved(
        **common_facts(isvc),
        storage_uri=view.stable_uri if own is None else own.storage_uri,
        canary_percent=None if own is None else own.percent,
        latest_created=latest,
        latest_ready=latest if is_up else stable if own is not None and stable_is_up else "",
        latest_rolledout=stable if stable_is_up else "",
        traffic=view.route.traffic,
        traffic_current=view.route.current,
        urls=own_urls(view),
        # It is about the stable predictor's pods; KServe says nothing about why a canary does not come up.
        failure=load_failure(model_status, "") if own is None else None,
        annotations=notes_of(isvc, view, own),
        obstacles=obstacles,
        unreadable=view.unreadable,
        view=view,
    )
