"""KServe's Knative dialect: a canary is a percent of Knative's traffic for the newest revision."""

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
from slipway_core.rollout.dialects.knative import back, features, forward, preflight
from slipway_core.rollout.dialects.knative.observed import KnativeObserved, observe_knative
from slipway_core.rollout.dialects.knative.proof import doubt, live_doubt
from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES, REVISIONS
from slipway_core.rollout.dialects.knative.view import knative_service_name
from slipway_core.rollout.dialects.protocol import Dialect, Rights
from slipway_core.rollout.fields import TAG_ROUTING, mapping, text
from slipway_core.rollout.reading import NOTHING_ELSE, Evidence, Object, Reading


class KnativeDialect(Dialect[KnativeObserved]):
    """`knative/forward.py` and `knative/back.py` say how; `knative/observed.py` says what can be seen."""

    name: ClassVar[str] = KnativeObserved.dialect
    rights: ClassVar[Rights] = {
        KNATIVE_SERVICES: frozenset({"get", "patch"}),
        REVISIONS: frozenset({"get"}),
    }
    guard_rights: ClassVar[Rights] = rights
    config_map: ClassVar[tuple[str, str]] = features.CONFIG_MAP

    def extra_readings(self, isvc: Object) -> tuple[Reading, ...]:
        """Return the Knative Service, which shows what KServe has acted on, and the revisions, which never change."""
        service = text(mapping(isvc.get("metadata")).get("name"))
        named = observe_knative(isvc, ()).named_revisions
        return (
            Reading(KNATIVE_SERVICES, (knative_service_name(service),)),
            Reading(REVISIONS, tuple(named), never_changes=True),
        )

    def observe(self, isvc: Object, evidence: Evidence, obstacles: tuple[str, ...]) -> KnativeObserved:
        """Return the observation; where one thing behind could not be read, nothing behind counts."""
        seen = NOTHING_ELSE if evidence.unread else evidence
        return observe_knative(
            isvc,
            obstacles,
            service=next(iter(seen.of(KNATIVE_SERVICES)), None),
            revisions=seen.of(REVISIONS),
            unseen=evidence.unread,
        )

    def annotations(self, notes: Mapping[str, str]) -> dict[str, str]:
        """Return the notes; and each revision with a place in the traffic is given its own host."""
        return {**notes, TAG_ROUTING: "true"}

    def predictor_fields(self, notes: Mapping[str, str]) -> dict[str, Any]:
        """Return nothing: what Knative needs is its own default."""
        return {}

    def asks_config(self, isvc: Object) -> bool:
        """Return whether the predictor has a field that Knative may refuse; without one nobody is asked."""
        return bool(self.switches(isvc))

    def switches(self, isvc: Object) -> tuple[str, ...]:
        """Return the features that must be on for the predictor's fields."""
        return features.features_needed(isvc)

    def refused_pods(self, isvc: Object, config: Mapping[str, str] | None) -> tuple[str, ...]:
        """Return which fields of the pods Knative does not take here."""
        return features.features_lacking(isvc, config)

    def preflight(
        self, isvc: Object, evidence: Evidence, config: Mapping[str, str] | None
    ) -> tuple[str, ...]:
        """Return why no canary would work; the status tells all that is known of it."""
        return tuple(preflight.problems(isvc))

    def first_version_doubt(self, observed: KnativeObserved, uri: str) -> str:
        """Return why the pods are not known to serve the first version."""
        short = live_doubt(observed, uri)
        return f"Waiting for what the first version's pods serve: {short}" if short else ""

    def withdrawal_doubt(self, observed: KnativeObserved) -> str:
        """Return why the status may be about a version before: the spec was changed since it was created."""
        if not observed.latest_ready or observed.generation == 1:
            return ""
        return doubt(observed, observed.storage_uri)

    def show_candidate(self, goal: ShowCandidate, observed: KnativeObserved) -> Action:
        """Return the next action towards a preview."""
        return forward.show_candidate(goal, observed)

    def start_canary(self, goal: StartCanary, observed: KnativeObserved) -> Action:
        """Return the next action towards a canary at its first weight."""
        return forward.start_canary(goal, observed)

    def shift_weight(self, goal: ShiftWeight, observed: KnativeObserved) -> Action:
        """Return the next action towards another weight."""
        return forward.shift_weight(goal, observed)

    def promote(self, goal: Promote, observed: KnativeObserved) -> Action:
        """Return the next action towards all traffic on the candidate."""
        return forward.promote(goal, observed)

    def serving_doubt(self, observed: KnativeObserved) -> str:
        """Return why the version that the spec names is not known to have all users."""
        return live_doubt(observed, observed.storage_uri)

    def roll_back(self, goal: RollBack, observed: KnativeObserved) -> Action:
        """Return the next action back to a good version."""
        return back.roll_back(goal, observed)
