"""What KServe's Standard mode shows beyond what both modes have: `spec.canary[]`, its echo, and the HTTPRoutes.

Read in KServe's sources between 0.20 and 0.21 (`components/predictor.go` at 0187b461, its test at the commit of
PR 5984, `inference_service_validation_test.go`, `test/e2e/predictor/test_canary.py`) and in the pull requests
5672 (the list), 5912 (weights), 5944 and 5984 (only ready canaries get traffic; the first release with both is
0.21):

- `spec.canary[]` is a list of `{trafficPercent, predictor}`. A canary's Deployment and Service are called
  ISVC-NAME-predictor after `predictor.name`; stable's ISVC-predictor, or ISVC-NAME-predictor once it has a
  name. What the entry leaves out it takes from `spec.predictor`.
- `status.canaryStatuses[]` is `{name, ready, trafficPercent}`. The percent repeats the spec and says nothing
  about traffic; `ready` is "at least one pod is available", of however many. How many there are the Deployments tell
  (`replicas.py`): minReplicas are an autoscaler's, and a Deployment begins with one pod.
- The HTTPRoutes ISVC and ISVC-predictor carry the weights in `backendRefs`, for ready canaries only, stable
  getting the rest; without canaries a single reference without a weight. They keep their names over a promotion.
- They are left as they are while the stable predictor is not ready, which is its Deployment's condition Available:
  with Kubernetes' maxUnavailable of 25 % one missing pod of three is enough, with slipway's 50 % two are.
- Their own status says what a Gateway makes of them (`parents[].conditions[]`, each with the generation that it is
  about).
- Annotations of the InferenceService reach the pods of *every* predictor, so a new annotation restarts stable
  (`createRawDefaultDeployment` puts the component's metadata into the pod template). Slipway's notes lie in the
  canary's `predictor.annotations` instead, which reach its own pods only and become stable's at promotion.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway_core.rollout.dialects.standard.candidate_route import (
    CandidateRoute,
    candidate_route,
    read_candidate_route,
)
from slipway_core.rollout.dialects.standard.replicas import Replicas, number_in, read_deployments
from slipway_core.rollout.fields import (
    CANDIDATE_URI,
    FIRST_REPLICAS,
    condition_is_true,
    is_percent,
    items,
    mapping,
    percent,
    text,
    texts,
    whole,
)

_VERSION_IN_URI = re.compile(r"/([0-9]{1,12})/repository/?$")
UNKNOWN = "unknown"


def version_in(storage_uri: str) -> str:
    """Return the version in a published version's storageUri, UNKNOWN for another's."""
    found = _VERSION_IN_URI.search(storage_uri)
    return found[1] if found else UNKNOWN


def predictor_name(storage_uri: str) -> str:
    """Return the name of the predictor that serves `storage_uri`: the same URI, the same name.

    So a task that is run again names the same canary, and the revision of a URI is known without any note.
    """
    digest = hashlib.sha256(storage_uri.encode()).hexdigest()[:8]
    version = version_in(storage_uri)
    return f"v{digest}" if version == UNKNOWN else f"v{version}-{digest}"


def backend_name(service: str, name: str) -> str:
    """Return what KServe calls the Deployment and Service of the predictor `name` ("" has none)."""
    return f"{service}-{name}-predictor" if name else f"{service}-predictor"


@dataclass(frozen=True)
class CanaryEntry:
    """One entry of `spec.canary`; `body` is the whole of it, as a merge patch must give it back."""

    name: str
    storage_uri: str
    percent: int
    notes: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def is_own(self) -> bool:
        """Whether slipway made it."""
        return CANDIDATE_URI in self.notes

    @property
    def min_replicas(self) -> int:
        """Its own `minReplicas`; 1 where it has none."""
        return max(whole(mapping(self.body.get("predictor")).get("minReplicas")) or 1, 1)

    @property
    def has_grown(self) -> bool:
        """Whether it has other replicas than when it began."""
        first = number_in(self.notes.get(FIRST_REPLICAS, ""))
        return first is not None and first != self.min_replicas


@dataclass(frozen=True)
class CanaryEcho:
    """What `status.canaryStatuses` says of a canary; `percent` is what the controller last read in the spec."""

    ready: bool
    percent: int


@dataclass(frozen=True)
class RouteReading:
    """What the HTTPRoutes do with users: percent by backend.

    Where routes or rules differ, each backend has its largest share, so that the sum is above 100 and none is
    alone. `current` tells whether the Gateways have taken the routes as they are written; `found` whether any
    leads to this service's predictors.
    """

    traffic: Mapping[str, int] = field(default_factory=dict)
    current: bool = False
    found: bool = False


@dataclass(frozen=True)
class StandardView:
    """One InferenceService in Standard mode. `predictor` is its `spec.predictor`, whole.

    `own_route` is the HTTPRoute of slipway's that leads testers to the candidate; `route_to` returns it as it should be
    for a canary, None if KServe's own routes tell of no host. `deployments` tells of the pods, by backend; None
    where nobody could see. `unreadable` names the parts of `spec.canary` that are
    of no known form.
    """

    service: str
    predictor: Mapping[str, Any]
    canaries: tuple[CanaryEntry, ...]
    echoes: Mapping[str, CanaryEcho]
    predictor_ready: bool
    route: RouteReading
    own_route: CandidateRoute = field(default_factory=CandidateRoute)
    uid: str = ""
    routes: tuple[Mapping[str, Any], ...] = ()
    unreadable: tuple[str, ...] = ()
    deployments: Mapping[str, Replicas] | None = None

    @property
    def own(self) -> CanaryEntry | None:
        """The canary that slipway made, if there is one."""
        return next((entry for entry in self.canaries if entry.is_own), None)

    @property
    def others(self) -> tuple[CanaryEntry, ...]:
        """The canaries that are nobody's business here."""
        return tuple(entry for entry in self.canaries if entry is not self.own)

    @property
    def stable_name(self) -> str:
        """The stable predictor's name, "" if it has none."""
        return text(self.predictor.get("name"))

    @property
    def stable_uri(self) -> str:
        """What the stable predictor serves."""
        return _storage_uri(self.predictor)

    @property
    def stable_backend(self) -> str:
        """The stable predictor's Deployment and Service."""
        return backend_name(self.service, self.stable_name)

    @property
    def stable_notes(self) -> dict[str, str]:
        """What was noted when the stable predictor was made or promoted."""
        return texts(self.predictor.get("annotations"))

    @property
    def min_replicas(self) -> int | None:
        """The stable predictor's `minReplicas`."""
        return whole(self.predictor.get("minReplicas"))

    @property
    def max_replicas(self) -> int:
        """The stable predictor's `maxReplicas`; 0 where it is not set."""
        return whole(self.predictor.get("maxReplicas")) or 0

    def backend(self, entry: CanaryEntry) -> str:
        """Return a canary's Deployment and Service."""
        return backend_name(self.service, entry.name)

    def backends_of(self, storage_uri: str) -> set[str]:
        """Return the backends that serve `storage_uri` or, by their name, did."""
        serving = {self.backend(entry) for entry in self.canaries if entry.storage_uri == storage_uri}
        if self.stable_uri == storage_uri:
            return serving | {self.stable_backend}
        return serving | ({backend_name(self.service, predictor_name(storage_uri))} - {self.stable_backend})

    def route_to(self, entry: CanaryEntry) -> dict[str, Any] | None:
        """Return the HTTPRoute that leads testers to a canary; None if no host can be made for it."""
        return candidate_route(self.service, self.uid, self.backend(entry), self.routes)

    def echo(self, entry: CanaryEntry) -> CanaryEcho | None:
        """Return what the status says of a canary; None if the controller has not taken note of it."""
        return self.echoes.get(entry.name)


def standard_view(
    isvc: Mapping[str, Any],
    routes: Iterable[Mapping[str, Any]],
    deployments: Iterable[Mapping[str, Any]] | None = None,
) -> StandardView:
    """Read the parts of Standard mode; `routes` and `deployments` are the service's, or its whole namespace's."""
    spec, status = mapping(isvc.get("spec")), mapping(isvc.get("status"))
    metadata = mapping(isvc.get("metadata"))
    service, routes = text(metadata.get("name")), tuple(items(list(routes)))
    return StandardView(
        service=service,
        predictor=mapping(spec.get("predictor")),
        canaries=tuple(_entry(item) for item in items(spec.get("canary"))),
        echoes={
            text(item.get("name")): CanaryEcho(
                item.get("ready") is True, percent(item.get("trafficPercent")) or 0
            )
            for item in items(status.get("canaryStatuses"))
        },
        predictor_ready=condition_is_true(status, "PredictorReady"),
        route=read_routes(routes, service),
        own_route=read_candidate_route(routes, service, is_taken=_is_taken),
        uid=text(metadata.get("uid")),
        routes=routes,
        unreadable=tuple(_unreadable(spec.get("canary"))),
        deployments=None if deployments is None else read_deployments(deployments),
    )


def _unreadable(canaries: Any) -> Iterator[str]:
    """Yield the entries of `spec.canary` that look like another canary's, or that may have any share."""
    if canaries is not None and not isinstance(canaries, list):
        yield "spec.canary"
        return
    for place, entry in enumerate(canaries or ()):
        share = mapping(entry).get("trafficPercent")
        if not isinstance(entry, Mapping):
            yield f"spec.canary[{place}]"
        elif share is not None and not is_percent(share):
            yield f"spec.canary[{place}].trafficPercent"


def _entry(body: Mapping[str, Any]) -> CanaryEntry:
    predictor = mapping(body.get("predictor"))
    return CanaryEntry(
        name=text(predictor.get("name")),
        storage_uri=_storage_uri(predictor),
        percent=percent(body.get("trafficPercent")) or 0,
        notes=texts(predictor.get("annotations")),
        body=body,
    )


def _storage_uri(predictor: Mapping[str, Any]) -> str:
    return text(mapping(predictor.get("model")).get("storageUri"))


def read_routes(routes: Iterable[Mapping[str, Any]], service: str) -> RouteReading:
    """Return what HTTPRoutes do with the users of `service`'s predictors.

    Routes of other services do not count, nor rules that lead to a transformer or an explainer.
    """
    belongs = re.compile(rf"{re.escape(service)}(-.+)?-predictor")
    own = (service, f"{service}-predictor")
    traffic: dict[str, int] = {}
    leading, is_whole = [], True
    for route in items(list(routes)):
        if mapping(route.get("metadata")).get("name") not in own:
            continue
        rules = mapping(route.get("spec")).get("rules")
        is_whole = is_whole and _are_mappings(rules)
        for rule in items(rules):
            shares, all_given = _shares(rule.get("backendRefs"))
            is_whole = is_whole and all_given
            if not any(belongs.fullmatch(name) for name in shares):
                continue
            leading.append(route)
            for name, share in shares.items():
                traffic[name] = max(share, traffic.get(name, 0))
    return RouteReading(traffic, is_whole and bool(leading) and all(map(_is_taken, leading)), bool(leading))


def _are_mappings(value: Any) -> bool:
    return isinstance(value, list) and len(items(value)) == len(value)


def _shares(references: Any) -> tuple[dict[str, int], bool]:
    """Return percent by backend, and whether every share was given. Gateway API: an omitted weight is 1."""
    is_whole = references is None or _are_mappings(references)
    weights: dict[str, int] = {}
    for one in items(references):
        weight = 1 if one.get("weight") is None else whole(one["weight"])
        name = text(one.get("name"))
        if weight is None or weight < 0 or not name:
            is_whole = False
            continue
        weights[name] = weights.get(name, 0) + weight
    total = sum(weights.values())
    return {name: _percent(weight, total) for name, weight in weights.items()}, is_whole


def _percent(weight: int, total: int) -> int:
    """Return the share in whole percent; only nothing is 0, and only everything is 100."""
    if weight in (0, total):
        return 100 if weight else 0
    return min(99, max(1, round(100 * weight / total)))


def _is_taken(route: Mapping[str, Any]) -> bool:
    """Return whether every Gateway says that it has accepted the route in its present generation."""
    generation = whole(mapping(route.get("metadata")).get("generation")) or 0
    accepted = [
        condition
        for parent in items(mapping(route.get("status")).get("parents"))
        for condition in items(parent.get("conditions"))
        if condition.get("type") == "Accepted"
    ]
    return bool(accepted) and all(
        one.get("status") == "True" and _is_about(one.get("observedGeneration"), generation)
        for one in accepted
    )


def _is_about(observed: Any, generation: int) -> bool:
    """Return whether a condition is about this generation; one that names none is about the newest."""
    if observed is None:
        return True
    number = whole(observed)
    return number is not None and (number or generation) >= generation
