"""What can be seen of an InferenceService, in either of KServe's dialects, as one value with the same questions.

In the Knative dialect, read in KServe's source (`inference_service_status.go`, `ksvc_reconciler.go`, 0.15 to
0.20):

- `latestCreated` is the newest revision, `latestReady` the newest that answers, `latestRolledout` the one
  that last had all traffic as the latest, `previousRolledout` the one before it.
- With a percent p the targets are {latestReady: p, latestRolledout: 100 - p}; without one, latestReady alone.
- Where all traffic is on one revision that is latestCreated, latestReady and latestRolledout, and p is below
  100, the controller sets latestRolledout back to previousRolledout: a percent without a new spec leads to
  the model before.
- `status.observedGeneration` is copied from the Knative Service, whose generations are counted apart
  (kserve#6081). It may lag for ever or run ahead, so nothing is concluded from it: the status may be older than the
  spec. What KServe has acted on, the Knative Service's own spec shows, and what a revision serves, the revision.
- `traffic` is what Knative intends, not what the router does (`dialects/knative/view.py`).
- An InferenceService's annotations are copied into the Knative revision template (kserve#3710), so a patch of
  annotations alone makes a new revision. Ours change only in patches that change the storageUri, which make
  one anyway.

In the Standard dialect (`dialects/standard/view.py` says what was read there) a revision is a predictor's Deployment
and Service, and its traffic is what the HTTPRoutes' backendRefs say, never `status.canaryStatuses`, which
repeats the spec. The stable one is called rolled out, and slipway's canary, while there is one, is the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slipway_core.rollout.dialects.knative.view import (
    KnativeService,
    RevisionTemplate,
    knative_service,
    knative_view,
    revision_templates,
)
from slipway_core.rollout.dialects.standard.notes import leads_nobody_to, notes_of, own_urls
from slipway_core.rollout.dialects.standard.view import (
    StandardView,
    backend_name,
    predictor_name,
    standard_view,
)
from slipway_core.rollout.fields import (
    ANNOTATION_PREFIX,
    CANDIDATE_URI,
    NO_TRANSFORMER,
    PREVIEW_GENERATION,
    RELEASE,
    REPLACED_REVISION,
    RESTORED_AT,
    ROLLED_BACK_URI,
    STABLE_REVISION,
    STABLE_URI,
    STABLE_VERSION,
    START_GENERATION,
    TRANSFORMER,
    VERSION,
    common_facts,
    deployment_mode,
    is_percent,
    load_failure,
    manager_of,
    mapping,
    percent,
    text,
    texts,
)
from slipway_core.rollout.pods.starting import StartingPod
from slipway_core.rollout.preflight import preflight

__all__ = [
    "ANNOTATION_PREFIX",
    "CANDIDATE_URI",
    "RELEASE",
    "REPLACED_REVISION",
    "ROLLED_BACK_URI",
    "STABLE_REVISION",
    "STABLE_URI",
    "STABLE_VERSION",
    "VERSION",
    "Dialect",
    "Observed",
    "observe",
]

Dialect = Literal["Knative", "Standard"]


@dataclass(frozen=True)
class Observed:
    """One reading of an InferenceService. Revision names are "" where there is none; `traffic` is percent by
    revision.

    `storage_uri` is what the spec names last: the candidate while there is one. `canary_percent` is the
    candidate's weight in the spec, 0 in a preview and once a rollback was decided, None without a canary.
    `annotations` are the notes, wherever the dialect keeps them. `traffic_current` tells whether the router is known
    to do what `traffic` says; in the Knative dialect `route_pending` is why it is not, and `route_told` whether the
    status tells of that at all. `urls` are the addresses, by revision, that lead to that revision alone, whatever its
    weight. `obstacles` are the reasons why no canary can work here, `transformer` is the transformer's digest.
    `standard` is what only that dialect has; None tells Knative. `knative` is the Knative Service behind it, where
    it was read, and `revisions` what revisions serve, of those that were read; `unseen` is why either was not.
    `predictor` is the spec's, as it is.
    `restored_at` is the generation in which a rollback named the good version, "" where none did; `named_by` is who
    changed the storageUri last, "" where the API server does not tell. `unreadable` names what of the canary in the
    spec is of no known form: it reads as if the candidate had everyone, which a rollback can go on from and nothing
    else. `pods` are the InferenceService's; None: they were not read, or cannot be.
    """

    name: str
    namespace: str
    resource_version: str
    generation: int
    observed_generation: int | None
    storage_uri: str
    canary_percent: int | None
    latest_created: str
    latest_ready: str
    latest_rolledout: str
    previous_rolledout: str
    traffic: Mapping[str, int] = field(default_factory=dict)
    traffic_current: bool = True
    route_pending: str = ""
    route_told: bool = True
    urls: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    transition: str = ""
    failure: str | None = None
    url: str | None = None
    uid: str = ""
    deployment_mode: str | None = None
    predictor: Mapping[str, Any] = field(default_factory=dict)
    deleting: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    obstacles: tuple[str, ...] = ()
    transformer: str = NO_TRANSFORMER
    standard: StandardView | None = None
    knative: KnativeService | None = None
    revisions: Mapping[str, RevisionTemplate] = field(default_factory=dict)
    unseen: str = ""
    restored_at: str = ""
    named_by: str = ""
    unreadable: tuple[str, ...] = ()
    pods: tuple[StartingPod, ...] | None = None

    @property
    def dialect(self) -> Dialect:
        """In which of KServe's two ways traffic is split here."""
        return "Knative" if self.standard is None else "Standard"

    @property
    def candidate_ready(self) -> bool:
        """Whether the newest revision answers requests."""
        return bool(self.latest_created) and self.latest_created == self.latest_ready

    @property
    def stable_revision(self) -> str:
        """The revision that is live: during a canary, the one that was noted when it began."""
        noted = "" if self.canary_percent is None else self.annotation(STABLE_REVISION)
        return noted or self.latest_rolledout

    @property
    def stable_uri(self) -> str:
        """What the version that is live serves: during a canary, what was noted when it began."""
        return self.storage_uri if self.canary_percent is None else self.annotation(STABLE_URI)

    @property
    def candidate_url(self) -> str:
        """The address of the newest revision alone, for testers; "" where the routes give it none."""
        return self.urls.get(self.latest_created, "")

    @property
    def stable_url(self) -> str:
        """The address of the live revision alone; "" where the routes give it none."""
        return self.urls.get(self.stable_revision, "")

    @property
    def is_preview(self) -> bool:
        """Whether percent 0 is the beginning of a canary and not its end: nothing in the spec was changed since.

        Whoever rolls back changes the spec, and with it the generation that was noted when the preview began.
        """
        return self._is_as_begun(PREVIEW_GENERATION)

    @property
    def is_start(self) -> bool:
        """Whether percent 0 is that of a canary whose pods come up before its first users; likewise."""
        return self._is_as_begun(START_GENERATION)

    @property
    def begun_at(self) -> int:
        """The generation over which a preview or a start was laid that nobody has changed."""
        return self.generation - 1 - self._growths

    def _is_as_begun(self, key: str) -> bool:
        noted = self.annotation(key)
        return self.canary_percent == 0 and noted == str(self.generation - self._growths)

    @property
    def _growths(self) -> int:
        """How many patches of ours have changed nothing but the candidate's replicas since it began at percent 0."""
        own = None if self.standard is None else self.standard.own
        return int(own is not None and own.has_grown)

    @property
    def transformer_changed(self) -> bool:
        """Whether the transformer is another one than when the canary began, where that was noted."""
        noted = "" if self.canary_percent is None else self.annotation(TRANSFORMER)
        return noted not in ("", self.transformer)

    @property
    def named_revisions(self) -> list[str]:
        """The revisions that the status gives a part, each once."""
        named = (self.latest_ready, self.latest_created, self.latest_rolledout, self.previous_rolledout)
        return list(dict.fromkeys(name for name in named if name))

    @property
    def is_behind_read(self) -> bool:
        """Whether the Knative Service was read, or it is known why it cannot be."""
        return self.knative is not None or bool(self.unseen)

    @property
    def is_acted_on(self) -> bool:
        """Whether KServe has told Knative what the spec says now: what is to be served, and with which percent."""
        if self.knative is None:
            return False
        wanted = 100 if self.canary_percent is None else self.canary_percent
        named = RevisionTemplate(self.storage_uri, self.restored_at)
        return (self.knative.template, self.knative.latest_percent) == (named, wanted)

    def serves(self, revision: str) -> str:
        """Return what a revision serves, by its own template; "" where that was not read, or does not tell."""
        made = self.revisions.get(revision)
        return "" if made is None else made.storage_uri

    @property
    def invalid_spec(self) -> bool:
        """Whether the controller refuses to act on the spec at all; then no revision will come of it."""
        return self.transition == "InvalidSpec"

    @property
    def is_led_so(self) -> bool:
        """Whether users are known to be led as `traffic` says; the Knative Service, where it was read, knows better."""
        return self.traffic_current and not self._service_pending

    @property
    def _service_pending(self) -> str:
        return "" if self.knative is None else self.knative.pending(self.canary_percent, self.traffic)

    def share(self, revision: str) -> int:
        """Return the percent of traffic that `revision` was seen to get."""
        return self.traffic.get(revision, 0) if revision else 0

    def alone(self, revision: str) -> bool:
        """Return whether `revision` was seen to get all the traffic."""
        return self.is_led_so and self.is_intended_alone(revision)

    def is_intended_alone(self, revision: str) -> bool:
        """Return whether `revision` is to get all the traffic, whatever the router does."""
        sharing = {name for name, percent in self.traffic.items() if percent > 0}
        return bool(revision) and sharing == {revision}

    def is_split(self, shares: Mapping[str, int]) -> bool:
        """Return whether the traffic was seen to be exactly `shares`, percent by revision."""
        seen = {revision: percent for revision, percent in self.traffic.items() if percent > 0}
        return self.is_led_so and seen == dict(shares)

    def revision_of(self, storage_uri: str) -> str:
        """Return the revision that serves `storage_uri`, or did before it was rolled back; "" where none is known."""
        if self.storage_uri == storage_uri:
            return self.latest_created
        if self.standard is not None:
            view = self.standard
            is_stable = view.stable_uri == storage_uri
            return view.stable_backend if is_stable else backend_name(self.name, predictor_name(storage_uri))
        return self.annotation(REPLACED_REVISION) if self.annotation(ROLLED_BACK_URI) == storage_uri else ""

    def is_shielded_from(self, storage_uri: str) -> bool:
        """Return whether no user is led to `storage_uri`: the spec gives it nothing, and no traffic was seen on it."""
        if self.standard is not None:
            return self.traffic_current and leads_nobody_to(self.standard, storage_uri)
        if not self.is_led_so or (self.storage_uri == storage_uri and self.canary_percent != 0):
            return False
        led = {revision for revision, share in self.traffic.items() if share > 0}
        if self.canary_percent is None:
            # Whoever is the latest ready one gets everyone, as soon as KServe acts on it.
            return self.is_acted_on and bool(led) and all(self._is_off(one, storage_uri) for one in led)
        # The rest leads to what is rolled out.
        return all(self._is_off(one, storage_uri) for one in {*led, self.latest_rolledout})

    def _is_off(self, revision: str, storage_uri: str) -> bool:
        """Tell whether a revision is known to serve something else, by its template, or else by our own note of it."""
        if self.serves(revision):
            return self.serves(revision) != storage_uri
        is_noted = revision == self.annotation(STABLE_REVISION) != ""
        return is_noted and self.annotation(STABLE_URI) not in ("", storage_uri)

    @property
    def traffic_doubt(self) -> str:
        """What people are told of traffic that the router is not known to have taken; "" where nothing is known to
        stand against it.
        """
        pending = self.route_pending or self._service_pending
        if not pending:
            return ""
        shares = ", ".join(f"{percent} % to {revision}" for revision, percent in self.traffic.items())
        return f" Knative intends {shares or 'no traffic'}; {pending}."

    def annotation(self, key: str) -> str:
        """Return one annotation, "" where it is not set."""
        return self.annotations.get(key, "")


def observe(
    isvc: Mapping[str, Any],
    routes: Iterable[Mapping[str, Any]] = (),
    deployments: Iterable[Mapping[str, Any]] | None = None,
    behind: Mapping[str, Any] | None = None,
    revisions: Iterable[Mapping[str, Any]] = (),
    unseen: str = "",
) -> Observed:
    """Read an InferenceService (v1beta1, as the API returns it); a missing status reads as "nothing happened
    yet".

    `routes` are its HTTPRoutes and `deployments` its Deployments (None: they could not be read), among others perhaps;
    only the Standard mode looks at them. `behind` is the Knative mode's Knative Service (None: it was not read, or
    cannot be), `revisions` are those that the status names, and `unseen` is why one of these could not be read. Where
    no mode is named it is Knative.
    """
    if deployment_mode(isvc) == "Standard":
        return _observe_standard(isvc, list(routes), deployments)
    metadata, spec, status = (mapping(isvc.get(part)) for part in ("metadata", "spec", "status"))
    predictor = mapping(spec.get("predictor"))
    component = mapping(mapping(status.get("components")).get("predictor"))
    told_percent = predictor.get("canaryTrafficPercent")
    view = knative_view(status, component, percent(told_percent))
    return Observed(
        **common_facts(isvc),
        storage_uri=text(mapping(predictor.get("model")).get("storageUri")),
        canary_percent=percent(told_percent),
        latest_created=text(component.get("latestCreatedRevision")),
        latest_ready=text(component.get("latestReadyRevision")),
        latest_rolledout=text(component.get("latestRolledoutRevision")),
        previous_rolledout=text(component.get("previousRolledoutRevision")),
        traffic=view.shares,
        traffic_current=view.is_whole and not view.route_pending,
        route_pending=view.route_pending,
        route_told=view.route_told,
        urls=view.urls,
        failure=load_failure(
            mapping(status.get("modelStatus")), text(component.get("latestCreatedRevision"))
        ),
        annotations=texts(metadata.get("annotations")),
        obstacles=preflight(isvc),
        knative=knative_service(behind, text(metadata.get("name")), text(metadata.get("uid"))),
        revisions=revision_templates(revisions),
        unseen=unseen,
        named_by=manager_of(metadata, "spec", "predictor", "model", "storageUri"),
        restored_at=texts(predictor.get("annotations")).get(RESTORED_AT, ""),
        unreadable=()
        if told_percent is None or is_percent(told_percent)
        else ("spec.predictor.canaryTrafficPercent",),
    )


def _observe_standard(
    isvc: Mapping[str, Any],
    routes: list[Mapping[str, Any]],
    deployments: Iterable[Mapping[str, Any]] | None,
) -> Observed:
    view = standard_view(isvc, routes, deployments)
    own, stable = view.own, view.stable_backend
    model_status = mapping(mapping(isvc.get("status")).get("modelStatus"))
    candidate_is_up = own is not None and (echo := view.echo(own)) is not None and echo.ready
    stable_is_up = view.predictor_ready or bool(view.route.traffic.get(stable))
    latest = stable if own is None else view.backend(own)
    is_up = view.predictor_ready if own is None else candidate_is_up
    return Observed(
        **common_facts(isvc),
        storage_uri=view.stable_uri if own is None else own.storage_uri,
        canary_percent=None if own is None else own.percent,
        latest_created=latest,
        latest_ready=latest if is_up else stable if own is not None and stable_is_up else "",
        latest_rolledout=stable if stable_is_up else "",
        previous_rolledout="",
        traffic=view.route.traffic,
        traffic_current=view.route.current,
        urls=own_urls(view),
        # It is about the stable predictor's pods; KServe says nothing about why a canary does not come up.
        failure=load_failure(model_status, "") if own is None else None,
        annotations=notes_of(isvc, view, own),
        obstacles=preflight(isvc, routes),
        standard=view,
        unreadable=view.unreadable,
    )
