"""KServe's Standard dialect: a canary is an entry of `spec.canary`, and HTTPRoutes lead users to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from slipway_core.rollout.actions import (
    Action,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
)
from slipway_core.rollout.dialects.protocol import Dialect, Rights
from slipway_core.rollout.dialects.standard import back, forward, preflight
from slipway_core.rollout.dialects.standard.capacity import incomplete, unproved
from slipway_core.rollout.dialects.standard.observed import StandardObserved, observe_standard
from slipway_core.rollout.dialects.standard.resources import (
    DEPLOYMENTS,
    HTTP_ROUTES,
    deployments_of,
    routes_of,
)
from slipway_core.rollout.dialects.standard.view import standard_view
from slipway_core.rollout.fields import ROLLING_UPDATE, mapping, text
from slipway_core.rollout.reading import Evidence, Object, Reading, Resource


class StandardDialect(Dialect[StandardObserved]):
    """`standard/forward.py` and `standard/back.py` say how; `standard/observed.py` says what can be seen."""

    name: ClassVar[str] = StandardObserved.dialect
    rights: ClassVar[Rights] = {
        HTTP_ROUTES: frozenset({"get", "patch", "create", "delete"}),
        DEPLOYMENTS: frozenset({"list"}),
    }
    guard_rights: ClassVar[Rights] = {HTTP_ROUTES: frozenset({"list", "patch"})}
    watched: ClassVar[tuple[Resource, ...]] = (HTTP_ROUTES,)
    config_map: ClassVar[tuple[str, str]] = preflight.CONFIG_MAP
    removes_candidate: ClassVar[bool] = True
    exposes_candidate: ClassVar[bool] = True

    def readings(self, isvc: Object) -> tuple[Reading, ...]:
        """Return the HTTPRoutes, which show the traffic, and the Deployments, which show the pods."""
        service = text(mapping(isvc.get("metadata")).get("name"))
        return routes_of(service), deployments_of(service)

    def observe(self, isvc: Object, evidence: Evidence, obstacles: tuple[str, ...]) -> StandardObserved:
        """Return the observation; Deployments that were not read are not known, and none that are missing."""
        deployments = evidence.of(DEPLOYMENTS) if DEPLOYMENTS in evidence.objects else None
        return observe_standard(isvc, obstacles, evidence.of(HTTP_ROUTES), deployments)

    def annotations(self, notes: Mapping[str, str]) -> dict[str, str]:
        """Return nothing: a note on the object that changes would restart the pods of all."""
        return {}

    def predictor_fields(self, notes: Mapping[str, str]) -> dict[str, Any]:
        """Return the notes, which change with the predictor; and that one missing pod must not keep KServe from writing
        the routes, as Kubernetes' own maxUnavailable of 25 % would.
        """
        strategy = {"type": "RollingUpdate", "rollingUpdate": dict(ROLLING_UPDATE)}
        return {**({"annotations": dict(notes)} if notes else {}), "deploymentStrategy": strategy}

    def asks_config(self, isvc: Object) -> bool:
        """Return True: KServe's configuration decides whether weights lead anybody anywhere."""
        return True

    def preflight(
        self, isvc: Object, evidence: Evidence, config: Mapping[str, str] | None
    ) -> tuple[str, ...]:
        """Return why no canary would work."""
        view = standard_view(isvc, evidence.of(HTTP_ROUTES))
        known = None if config is None else preflight.cluster_config(config)
        return tuple(preflight.problems(isvc, view, known))

    def first_version_doubt(self, observed: StandardObserved, uri: str) -> str:
        """Return what is missing of the first version's pods."""
        short = incomplete(observed.view, uri)
        return f"Waiting for all pods of the first version: {short}" if short else ""

    def show_candidate(self, goal: ShowCandidate, observed: StandardObserved) -> Action:
        """Return the next action towards a preview."""
        return forward.show_candidate(goal, observed, observed.view)

    def start_canary(self, goal: StartCanary, observed: StandardObserved) -> Action:
        """Return the next action towards a canary at its first weight."""
        return forward.start_canary(goal, observed, observed.view)

    def shift_weight(self, goal: ShiftWeight, observed: StandardObserved) -> Action:
        """Return the next action towards another weight."""
        return forward.shift_weight(goal, observed, observed.view)

    def promote(self, goal: Promote, observed: StandardObserved) -> Action:
        """Return the next action towards all traffic on the candidate."""
        return forward.promote(goal, observed, observed.view)

    def serving_doubt(self, observed: StandardObserved) -> str:
        """Return why the version that the spec names is not known to have all users."""
        view = observed.view
        found = unproved(view, view.stable_backend, view.stable_uri)
        return found or (
            "" if observed.alone(view.stable_backend) else "It is not seen to have all the traffic."
        )

    def roll_back(self, goal: RollBack, observed: StandardObserved) -> Action:
        """Return the next action back to a good version."""
        return back.roll_back(goal, observed, observed.view)
