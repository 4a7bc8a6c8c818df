"""A small model of KServe's Knative mode: only what decides which revision gets which share.

Four controllers act one step at a time, in any order, each on what it last saw:
- KServe's reads the InferenceService (perhaps an old copy) and its status, writes the Knative Service's
  template and targets, and copies the Knative Service's status back;
- Knative's configuration controller makes a revision whenever the template changes, and revisions become
  ready or fail;
- Knative's route controller resolves the targets to revisions: that is the traffic it intends, and tells of;
- the ingress takes it over: that is what users get, and the route is ready. A dead ingress never does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES
from slipway_core.rollout.dialects.registry import observe
from slipway_core.rollout.fields import FIELD_MANAGER, SOURCE_URI, TAG_ROUTING
from slipway_core.rollout.observation import Observed
from slipway_sandbox.cluster.merge import merge_patched
from slipway_sandbox.kserve.knative.traffic_rules import RolledOut, Target, rolled_out_after, targets
from slipway_sandbox.lab.simulation.cluster_model import ConflictError
from slipway_sandbox.lab.simulation.evidence import knative_evidence

Json = dict[str, Any]
# The storageUri, the service's annotations that reach revisions, and the predictor's own ones, which always do.
Template = tuple[str, str, tuple[tuple[str, str], ...]]

# A newly made InferenceService needs these steps, in this order, until nothing changes.
CONTROLLERS = ("sync", "kserve", "configuration", "ready", "route")
STEPS = (*CONTROLLERS, "ingress")


@dataclass
class KnativeModel:
    """One InferenceService `digits` and what Knative makes of it.

    `own_generation` tells whether status.observedGeneration is the InferenceService's own (as it should be)
    or copied from the Knative Service (as KServe does). `annotations_reach_revisions` is KServe's default.
    `unloadable` URIs never get ready. `ingress_is_alive` may change at any time;
    `ingress_is_prompt`: it acts in one with the route controller.
    """

    own_generation: bool = True
    annotations_reach_revisions: bool = True
    unloadable: frozenset[str] = frozenset()
    ingress_is_alive: bool = True
    ingress_is_prompt: bool = False

    spec: Json = field(default_factory=dict)
    transformer: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    named_by: str = ""
    generation: int = 1
    resource_version: int = 1
    seen: tuple[Json, Json, int] | None = None
    component: dict[str, str] = field(default_factory=dict)
    status_traffic: list[Json] = field(default_factory=list)
    status_route: str = ""
    observed_generation: int | None = None
    template: Template | None = None
    targets: list[Json] = field(default_factory=list)
    service_generation: int = 0
    handled_generation: int = 0
    revisions: list[tuple[str, Template]] = field(default_factory=list)
    up: set[str] = field(default_factory=set)
    intended: list[Json] = field(default_factory=list)
    routed: list[Json] = field(default_factory=list)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> KnativeModel:
        """Return a copy that goes its own way: what is in these is changed in place, all else is replaced."""
        own = {"component": dict(self.component), "revisions": list(self.revisions), "up": set(self.up)}
        return replace(self, **own)

    # --- the API ---

    def create(self, manifest: Json) -> None:
        """Create the InferenceService."""
        self.spec = copy.deepcopy(manifest["spec"]["predictor"])
        self.transformer = copy.deepcopy(manifest["spec"].get("transformer", {}))
        self.annotations = dict(manifest["metadata"].get("annotations", {}))

    def patch(self, body: Json, manager: str | None = None) -> None:
        """Apply a merge patch as the API server does: 409 on another resourceVersion, generation only for the
        spec.

        :param manager: who patches; None: slipway, if the patch names a resourceVersion, as all of slipway's do.
        """
        wanted = body["metadata"].get("resourceVersion")
        if wanted is not None and wanted != str(self.resource_version):
            raise ConflictError
        before = (self.spec, self.transformer)
        self.spec = merge_patched(self.spec, body.get("spec", {}).get("predictor", {}))
        self.transformer = merge_patched(self.transformer, body.get("spec", {}).get("transformer", {}))
        self.annotations = merge_patched(self.annotations, body["metadata"].get("annotations", {}))
        self.generation += (self.spec, self.transformer) != before
        if self.spec["model"] != before[0]["model"]:
            self.named_by = manager or (FIELD_MANAGER if wanted is not None else "somebody")
        self.resource_version += 1

    def read(self) -> Observed:
        """Read the InferenceService, and the Knative Service behind it, as a client does."""
        return observe(self.as_object(), knative_evidence(self.knative_service(), self.revision_objects()))

    def as_object(self) -> Json:
        """Return the InferenceService as the API shows it."""
        loaded = self.component.get("latestCreatedRevision") == self.component.get("latestReadyRevision")
        failed = any(
            name == self.component.get("latestCreatedRevision") and key[0] in self.unloadable
            for name, key in self.revisions
        )
        transition = "UpToDate" if loaded else "BlockedByFailedLoad" if failed else "InProgress"
        return {
            "metadata": {
                "name": "digits",
                "namespace": "models",
                "uid": "u",
                "resourceVersion": str(self.resource_version),
                "generation": self.generation,
                "annotations": dict(self.annotations),
                "managedFields": self._managed_fields(),
            },
            "spec": {
                "predictor": copy.deepcopy(self.spec),
                **({"transformer": copy.deepcopy(self.transformer)} if self.transformer else {}),
            },
            "status": {
                "observedGeneration": self.observed_generation,
                "conditions": self._conditions(loaded),
                "modelStatus": {
                    "transitionStatus": transition,
                    "lastFailureInfo": {"reason": "ModelLoadFailed"},
                },
                "components": {
                    "predictor": {
                        **self.component,
                        "traffic": [_status_target(target) for target in self.status_traffic],
                    }
                },
            },
        }

    def _managed_fields(self) -> list[Json]:
        """Return who changed the storageUri last, as the API server tells it."""
        fields = {"f:spec": {"f:predictor": {"f:model": {"f:storageUri": {}}}}}
        return (
            [{"manager": self.named_by, "operation": "Update", "fieldsV1": fields}] if self.named_by else []
        )

    def knative_service(self) -> Json:
        """Return the Knative Service as the API shows it, as far as what is served and its traffic go."""
        owner = {"kind": "InferenceService", "name": "digits", "uid": "u", "controller": True}
        created, ready = self._latest_created(), self._latest_ready()
        is_routed = bool(self.intended) and self.routed == self.intended
        is_made = bool(self.revisions) and self.revisions[-1][1] == self.template
        is_settled = is_routed and is_made and created == ready
        return {
            "metadata": {
                "name": "digits-predictor",
                "namespace": "models",
                "resourceVersion": f"s{self.service_generation}",
                "generation": self.service_generation,
                "ownerReferences": [owner],
            },
            "spec": {
                "template": {"metadata": {"annotations": _made_of(self.template)}},
                "traffic": copy.deepcopy(self.targets),
            },
            "status": {
                "observedGeneration": self.handled_generation,
                "latestCreatedRevisionName": created,
                "latestReadyRevisionName": ready,
                "conditions": [
                    {"type": "RoutesReady", "status": "True" if is_routed else "Unknown"},
                    {"type": "Ready", "status": "True" if is_settled else "Unknown"},
                ],
            },
        }

    def revision_objects(self, names: Iterable[str] | None = None) -> list[Json]:
        """Return the revisions that the status names, as the API shows them; None: of the status as it is now."""
        wanted = set(self.component.values()) if names is None else set(names)
        return [
            {"metadata": {"name": name, "namespace": "models", "annotations": _made_of(template)}}
            for name, template in self.revisions
            if name in wanted
        ]

    def patch_made(self, action: PatchMade) -> None:
        """Apply a merge patch to the Knative Service: Knative's own webhook asks nobody of KServe."""
        ((name, body),) = ((one.name, one.body) for one in action.patches)
        if (action.resource, name) != (KNATIVE_SERVICES, "digits-predictor"):
            raise ValueError(f"no {action.resource.kind} {name}")
        if body["metadata"]["resourceVersion"] != f"s{self.service_generation}":
            raise ConflictError
        self.targets = copy.deepcopy(body["spec"]["traffic"])
        self.service_generation += 1

    def _conditions(self, loaded: bool) -> list[Json]:
        configuration = {"type": "PredictorConfigurationReady", "status": "True" if loaded else "Unknown"}
        if not self.status_route:
            return [configuration, {"type": "Ready", "status": "Unknown"}]
        reason = {} if self.status_route == "True" else {"reason": "IngressNotConfigured"}
        route = {"type": "PredictorRouteReady", "status": self.status_route, **reason}
        is_ready = "True" if loaded and self.status_route == "True" else "Unknown"
        return [
            configuration,
            route,
            *({"type": kind, "status": is_ready} for kind in ("PredictorReady", "Ready")),
        ]

    # --- what users get ---

    def share(self, uri: str) -> int:
        """Return the percent of users who get a revision that serves `uri`."""
        serving = dict(self.revisions)
        return sum(target["percent"] for target in self.routed if serving[target["revisionName"]][0] == uri)

    def users(self) -> dict[str, int]:
        """Return the percent of users by URI."""
        return {uri: share for uri in {key[0] for _, key in self.revisions} if (share := self.share(uri))}

    def prompt(self) -> KnativeModel:
        """Return a copy whose ingress is alive and prompt: it leads users wherever a slow or dead one could, except
        where it leads them now, and has far fewer states.
        """
        following = copy.deepcopy(self)
        following.ingress_is_alive = following.ingress_is_prompt = True
        following.step("ingress")
        return following

    # --- controllers ---

    @property
    def steps(self) -> tuple[str, ...]:
        """What may happen next; the newest revision may be ready before an older one."""
        apart = () if self.ingress_is_prompt else ("ingress",)
        return (*CONTROLLERS, *apart, "ready_newest")

    def key(self) -> str:
        """Return what decides everything that can still happen, without the counters."""
        state = {name: value for name, value in vars(self).items() if name not in _COUNTERS}
        state["up"] = sorted(self.up)
        state["component"] = sorted(self.component.items())
        return repr(sorted(state.items()))

    def step(self, name: str) -> None:
        """Let one controller do one thing; nothing to do is fine."""
        getattr(self, f"_{name}")()

    def settle(self, rounds: int = 12) -> None:
        """Let all controllers run until nothing is left to do."""
        for _ in range(rounds):
            for name in STEPS:
                self.step(name)

    def _sync(self) -> None:
        self.seen = (self.spec, self.annotations, self.generation)

    def _kserve(self) -> None:
        if self.seen is None:
            return
        spec, annotations, generation = self.seen
        percent, rolled_out = (
            spec.get("canaryTrafficPercent"),
            self.component.get("latestRolledoutRevision", ""),
        )
        lines = targets(
            percent,
            latest_ready="",
            rolled_out=rolled_out,
            tag_latest=annotations.get(TAG_ROUTING) == "true",
        )
        wanted = [_as_written(line) for line in lines]
        reaching = repr(sorted(annotations.items())) if self.annotations_reach_revisions else ""
        own = tuple(sorted(spec.get("annotations", {}).items()))
        template = (spec["model"]["storageUri"], reaching, own)
        if (template, wanted) != (self.template, self.targets):
            self.template, self.targets = template, wanted
            self.service_generation += 1
        before = self._status()
        self._propagate()
        self.observed_generation = generation if self.own_generation else self.handled_generation
        self.resource_version += before != self._status()

    def _status(self) -> tuple[Any, ...]:
        traffic = copy.deepcopy(self.status_traffic)
        return dict(self.component), traffic, self.status_route, self.observed_generation

    def _propagate(self) -> None:
        """Copy the Knative Service's status, with KServe's book-keeping of what is rolled out.

        Traffic and the route's condition come in one: True is about the traffic beside it, however old both are.
        """
        created, ready = self._latest_created(), self._latest_ready()
        status = self.component
        marks = RolledOut(
            status.get("latestRolledoutRevision", ""), status.get("previousRolledoutRevision", "")
        )
        lines = [
            Target(line["revisionName"], line["percent"], bool(line.get("latestRevision")))
            for line in self.intended
        ]
        now = rolled_out_after(marks, lines, latest_created=created, latest_ready=ready)
        if now != marks:
            status["latestRolledoutRevision"], status["previousRolledoutRevision"] = now.latest, now.previous
        status["latestCreatedRevision"], status["latestReadyRevision"] = created, ready
        self.status_traffic = copy.deepcopy(self.intended)
        if self.template is not None:
            self.status_route = "True" if self.intended and self.routed == self.intended else "Unknown"

    def _configuration(self) -> None:
        if self.template is not None and (not self.revisions or self.revisions[-1][1] != self.template):
            self.revisions.append((f"digits-predictor-{len(self.revisions) + 1:05d}", self.template))

    def _ready(self) -> None:
        for name, (uri, *_) in self.revisions:
            if name not in self.up and uri not in self.unloadable:
                self.up.add(name)
                return

    def _ready_newest(self) -> None:
        for name, (uri, *_) in reversed(self.revisions):
            if name not in self.up and uri not in self.unloadable:
                self.up.add(name)
                return

    def _route(self) -> None:
        ready = self._latest_ready()
        if not ready:
            return
        self.intended = [
            {**target, "revisionName": ready if target.get("latestRevision") else target["revisionName"]}
            for target in self.targets
        ]
        self.handled_generation = self.service_generation
        if self.ingress_is_prompt:
            self._ingress()

    def _ingress(self) -> None:
        if self.ingress_is_alive:
            self.routed = copy.deepcopy(self.intended)

    def _latest_created(self) -> str:
        return self.revisions[-1][0] if self.revisions else ""

    def _latest_ready(self) -> str:
        return next((name for name, _ in reversed(self.revisions) if name in self.up), "")


def _made_of(template: Template | None) -> Json:
    """Return the annotations of a template, as far as they tell what is served and who has named it."""
    if template is None:
        return {}
    uri, _, own = template
    return {SOURCE_URI: uri, **dict(own)}


def _as_written(target: Target) -> Json:
    """Return a line of the traffic as the spec of a Knative Service has it."""
    if not target.latest:
        return {"revisionName": target.revision, "percent": target.percent, "tag": target.tag}
    return {"latestRevision": True, "percent": target.percent, **({"tag": target.tag} if target.tag else {})}


def _status_target(target: Json) -> Json:
    """Return a line of the traffic as the status has it: a tag has its own host."""
    url = {"url": f"http://{target['tag']}-digits-predictor.models.example.org"} if "tag" in target else {}
    return {**target, **url}


def live_model(**settings: Any) -> KnativeModel:
    """Return an InferenceService on which v1 and then v2 were rolled out; v2 has all users."""
    model = KnativeModel(**settings)
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": "s3://b/v1"}}}})
    model.settle()
    model.patch({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": "s3://b/v2"}}}})
    model.settle()
    return model


# They number what happened and decide nothing; with them no two states would be the same.
_COUNTERS = frozenset(
    {"named_by", "resource_version", "service_generation", "handled_generation", "observed_generation"}
)
