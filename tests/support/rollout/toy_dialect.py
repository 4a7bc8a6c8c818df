"""A third dialect in one file, as small as one can be, and a cluster that speaks it.

`spec.toy` names a candidate and its weight. A controller carries that on to a Split of the InferenceService's name, and
who gets what the Split says.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from slipway_core.rollout.actions import (
    RELEASE_TRAFFIC,
    RESTORE,
    SHIELD,
    Action,
    Done,
    Impossible,
    ObjectPatch,
    Patch,
    PatchMade,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Wait,
    refuse_forward,
    refuse_start,
    refuse_weight,
)
from slipway_core.rollout.dialects.protocol import Dialect, Rights
from slipway_core.rollout.fields import (
    CANDIDATE_URI,
    DEPLOYMENT_MODE,
    STABLE_URI,
    common_facts,
    mapping,
    percent,
    text,
    texts,
    whole,
)
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.pods.starting import StartingPod
from slipway_core.rollout.reading import Evidence, Object, Reading, Resource
from slipway_guard.cluster import Snapshot

SPLITS = Resource("toy.example.org", "v1", "splits", "Split")
NAME = "digits"


@dataclass(frozen=True, kw_only=True)
class ToyObserved(Observed):
    """An InferenceService whose revisions are called by their storageUris."""

    dialect: ClassVar[str] = "Toy"

    split_version: str = ""

    def revision_of(self, storage_uri: str) -> str:
        """Return the storageUri."""
        return storage_uri

    def is_shielded_from(self, storage_uri: str) -> bool:
        """Return whether neither spec nor Split leads anybody there."""
        wanted = self.storage_uri == storage_uri and self.canary_percent != 0
        return self.traffic_current and not wanted and not self.share(storage_uri)


class ToyDialect(Dialect[ToyObserved]):
    """Weights in a Split."""

    name: ClassVar[str] = ToyObserved.dialect
    rights: ClassVar[Rights] = {SPLITS: frozenset({"get", "patch"})}
    guard_rights: ClassVar[Rights] = {SPLITS: frozenset({"list", "patch"})}
    watched: ClassVar[tuple[Resource, ...]] = (SPLITS,)
    config_map: ClassVar[tuple[str, str]] = ("toy", "config")

    def readings(self, isvc: Object) -> tuple[Reading, ...]:
        """Return the Split."""
        return (Reading(SPLITS, (text(mapping(isvc.get("metadata")).get("name")),), is_needed=True),)

    def observe(self, isvc: Object, evidence: Evidence, obstacles: tuple[str, ...]) -> ToyObserved:
        """Return the observation."""
        metadata, toy = mapping(isvc.get("metadata")), mapping(mapping(isvc.get("spec")).get("toy"))
        facts = common_facts(isvc)
        stable = text(mapping(facts["predictor"].get("model")).get("storageUri"))
        split = next(
            (one for one in evidence.of(SPLITS) if mapping(one.get("metadata")).get("name") == facts["name"]),
            {},
        )
        shares = {uri: whole(share) or 0 for uri, share in mapping(mapping(split.get("spec"))).items()}
        candidate = text(toy.get("uri"))
        return ToyObserved(
            **facts,
            storage_uri=candidate or stable,
            canary_percent=percent(toy.get("weight")) if candidate else None,
            latest_created=candidate or stable,
            latest_ready=candidate or stable,
            latest_rolledout=stable,
            traffic=shares,
            traffic_current=bool(shares),
            annotations=texts(metadata.get("annotations")),
            obstacles=obstacles,
            split_version=text(mapping(split.get("metadata")).get("resourceVersion")),
        )

    def annotations(self, notes: Mapping[str, str]) -> dict[str, str]:
        """Return the notes."""
        return dict(notes)

    def predictor_fields(self, notes: Mapping[str, str]) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def asks_config(self, isvc: Object) -> bool:
        """Return True: it decides whether there are Splits."""
        return True

    def preflight(
        self, isvc: Object, evidence: Evidence, config: Mapping[str, str] | None
    ) -> tuple[str, ...]:
        """Return why there are no Splits."""
        return ("There are no Splits here.",) if config == {"splits": "off"} else ()

    def first_version_doubt(self, observed: ToyObserved, uri: str) -> str:
        """Return nothing: whoever is in the Split answers."""
        return ""

    def show_candidate(self, goal: ShowCandidate, observed: ToyObserved) -> Action:
        """Return that nothing can be shown."""
        return Impossible("There are no previews in this mode.")

    def start_canary(self, goal: StartCanary, observed: ToyObserved) -> Action:
        """Return the next action towards the first weight."""
        if observed.canary_percent is not None:
            return self.shift_weight(ShiftWeight(goal.weight, goal.uri), observed)
        refusal = refuse_weight(goal.weight) or refuse_start(goal, observed)
        if refusal is not None:
            return refusal
        if not observed.alone(observed.latest_rolledout):
            return Wait("Waiting for stable to have everyone.", "settle")
        notes = {CANDIDATE_URI: goal.uri, STABLE_URI: observed.storage_uri}
        toy = {"uri": goal.uri, "weight": goal.weight}
        return _patch(observed, {"toy": toy}, "Start the canary.", "canary", notes)

    def shift_weight(self, goal: ShiftWeight, observed: ToyObserved) -> Action:
        """Return the next action towards a weight."""
        if goal.uri and goal.uri != observed.storage_uri:
            return Impossible(f"{observed.storage_uri} is named, not {goal.uri}.", kind="foreign_change")
        refusal = refuse_weight(goal.weight) or refuse_forward(observed)
        if refusal is not None:
            return refusal
        if observed.canary_percent != goal.weight:
            return _patch(observed, {"toy": {"weight": goal.weight}}, "Shift the canary.", "canary")
        if observed.is_split({observed.storage_uri: goal.weight, observed.stable_uri: 100 - goal.weight}):
            return Done(observed.traffic)
        return Wait("Waiting for the Split.", "canary")

    def promote(self, goal: Promote, observed: ToyObserved) -> Action:
        """Return the next action towards everyone on the candidate."""
        if observed.canary_percent is not None:
            model = {"model": {"storageUri": observed.storage_uri}}
            return _patch(observed, {"toy": None, "predictor": model}, "Promote.", "promote")
        return _await_everyone(observed, goal.uri, "promote")

    def serving_doubt(self, observed: ToyObserved) -> str:
        """Return why the version is not alone."""
        return "" if observed.alone(observed.storage_uri) else "It is not alone."

    def roll_back(self, goal: RollBack, observed: ToyObserved) -> Action:
        """Return the next action back; a controller that hangs is helped out."""
        if observed.canary_percent is None:
            return _await_everyone(observed, goal.stable_uri, RELEASE_TRAFFIC)
        if observed.canary_percent:
            return _patch(observed, {"toy": {"weight": 0}}, "Take users off.", SHIELD)
        if observed.alone(goal.stable_uri):
            return _patch(observed, {"toy": None}, "Remove the candidate.", RESTORE)
        body = {
            "metadata": {"resourceVersion": observed.split_version},
            "spec": {goal.stable_uri: 100, observed.storage_uri: 0},
        }
        away = PatchMade(SPLITS, (ObjectPatch(observed.name, body),), "Write the Split.", SHIELD)
        return Wait("Waiting for the Split to show weight 0.", SHIELD, fallback=away, fallback_after_s=0.0)


def _patch(
    observed: ToyObserved, spec: Object, reason: str, phase: str, notes: Mapping[str, str] | None = None
) -> Patch:
    metadata = {"resourceVersion": observed.resource_version, "annotations": dict(notes or {})}
    return Patch({"metadata": metadata, "spec": dict(spec)}, reason, phase)


def _await_everyone(observed: ToyObserved, uri: str, phase: str) -> Action:
    if observed.storage_uri != uri:
        return Impossible(f"{observed.storage_uri} is named, not {uri}.", kind="foreign_change")
    return Done(observed.traffic) if observed.alone(uri) else Wait("Waiting for the Split.", phase)


class ToyCluster:
    """Answers as `KServeHook` does; its controller acts before every reading.

    `hangs`: the controller does not.
    """

    namespace, name = "models", NAME

    def __init__(self, config: dict[str, str] | None = None) -> None:
        self.config = config
        self.service: dict[str, Any] | None = None
        self.split: dict[str, Any] = {}
        self.hangs = False
        self.written: list[str] = []
        self._version = 0

    def get(self) -> dict[str, Any] | None:
        """Return the InferenceService."""
        if not self.hangs:
            self._carry_on()
        return copy.deepcopy(self.service)

    def read(self, reading: Reading, uid: str) -> list[dict[str, Any]]:
        """Return the Split."""
        assert reading.resource == SPLITS
        return [self.split_object()]

    def starting_pods(self) -> tuple[StartingPod, ...] | None:
        """No pods can be seen."""
        return None

    def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return the ConfigMap of the mode."""
        assert (namespace, name) == ToyDialect.config_map
        return self.config

    def create(self, manifest: Mapping[str, Any]) -> bool:
        """Create the InferenceService."""
        self.service = copy.deepcopy(dict(manifest))
        self.service["metadata"] |= {"uid": "u", "generation": 1}
        self._touch()
        return True

    def patch(self, body: Mapping[str, Any], limit_s: float | None = None) -> bool:
        """Patch the InferenceService; False: it has changed."""
        assert self.service is not None
        if body["metadata"]["resourceVersion"] != self.service["metadata"]["resourceVersion"]:
            return False
        _merge(self.service["spec"], body["spec"])
        _merge(self.service["metadata"]["annotations"], body["metadata"].get("annotations", {}))
        self.service["metadata"]["generation"] += 1
        self._touch()
        return True

    def patch_made(self, action: PatchMade) -> bool:
        """Write the Split."""
        assert action.resource == SPLITS
        for one in action.patches:
            _merge(self.split, one.body["spec"])
            self.written.append(one.name)
        return True

    def split_object(self) -> dict[str, Any]:
        """Return the Split as the API shows it."""
        metadata = {"name": NAME, "namespace": self.namespace, "resourceVersion": "1"}
        return {"metadata": metadata, "spec": dict(self.split)}

    def _touch(self) -> None:
        assert self.service is not None
        self._version += 1
        self.service["metadata"]["resourceVersion"] = str(self._version)

    def _carry_on(self) -> None:
        if self.service is None:
            return
        spec = self.service["spec"]
        toy, stable = spec.get("toy") or {}, spec["predictor"]["model"]["storageUri"]
        self.split = {stable: 100 - toy.get("weight", 0)}
        if toy:
            self.split[toy["uri"]] = toy["weight"]


class GuardedToy:
    """Answers as the guard's `Cluster`, for a canary without a lease."""

    def __init__(self, cluster: ToyCluster) -> None:
        self._cluster = cluster
        self.events: list[Mapping[str, Any]] = []

    def snapshot(self) -> Snapshot:
        """Return the InferenceService and what the dialect watches."""
        service = self._cluster.get()
        assert service is not None
        return Snapshot((service,), (), {SPLITS: (self._cluster.split_object(),)})

    def read(self, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
        """Nothing lies behind in this mode."""
        raise AssertionError(f"{reading.resource.kind} is read")

    def patch_service(
        self, namespace: str, name: str, body: Mapping[str, Any], limit_s: float | None = None
    ) -> bool:
        """Patch the InferenceService."""
        return self._cluster.patch(body, limit_s)

    def patch_made(self, namespace: str, resource: Resource, name: str, body: Mapping[str, Any]) -> bool:
        """Write the Split."""
        return self._cluster.patch_made(PatchMade(resource, (ObjectPatch(name, body),), "", ""))

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """There is none."""
        return False

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Keep the event."""
        self.events.append(body)
        return True


def toy_manifest(storage_uri: str) -> dict[str, Any]:
    """Return an InferenceService in the mode of the toy."""
    return {
        "metadata": {"name": NAME, "namespace": "models", "annotations": {DEPLOYMENT_MODE: "Toy"}},
        "spec": {"predictor": {"model": {"storageUri": storage_uri}}},
    }


def _merge(target: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping):
            _merge(target.setdefault(key, {}), value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value
