"""What can be seen of an InferenceService in the Knative dialect.

Read in KServe's source (`inference_service_status.go`, `ksvc_reconciler.go`, 0.15 to 0.20):

- `latestCreated` is the newest revision, `latestReady` the newest that answers, `latestRolledout` the one
  that last had all traffic as the latest, `previousRolledout` the one before it.
- With a percent p the targets are {latestReady: p, latestRolledout: 100 - p}; without one, latestReady alone.
- Where all traffic is on one revision that is latestCreated, latestReady and latestRolledout, and p is below
  100, the controller sets latestRolledout back to previousRolledout: a percent without a new spec leads to
  the model before.
- `status.observedGeneration` is copied from the Knative Service, whose generations are counted apart
  (kserve#6081). It may lag forever or run ahead, so nothing is concluded from it: the status may be older than the
  spec. What KServe has acted on, the Knative Service's own spec shows, and what a revision serves, the revision.
- `traffic` is what Knative intends, not what the router does (`view.py`).
- An InferenceService's annotations are copied into the Knative revision template (kserve#3710), so a patch of
  annotations alone makes a new revision. Ours change only in patches that change the storageUri, which make
  one anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from slipway_core.rollout.dialects.knative.view import (
    KnativeService,
    RevisionTemplate,
    knative_service,
    knative_view,
    revision_templates,
)
from slipway_core.rollout.fields import (
    REPLACED_REVISION,
    RESTORED_AT,
    ROLLED_BACK_URI,
    STABLE_REVISION,
    STABLE_URI,
    common_facts,
    is_percent,
    load_failure,
    manager_of,
    mapping,
    percent,
    text,
    texts,
)
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reading import Object


@dataclass(frozen=True)
class KnativeObserved(Observed):
    """An InferenceService whose revisions are Knative's.

    `route_pending` is why the router is not known to do what `traffic` says, and `route_reported` whether the status
    reports that at all. `knative` is the Knative Service behind it, if it was read, and `revisions` what revisions
    serve, of those that were read; `unseen` is why either was not. `restored_at` is the generation in which a rollback
    named the good version, "" if none did; `named_by` is who changed the storageUri last, "" if the API server does not
    say.
    """

    dialect: ClassVar[str] = "Knative"

    previous_rolledout: str = ""
    route_pending: str = ""
    route_reported: bool = True
    transition: str = ""
    knative: KnativeService | None = None
    revisions: Mapping[str, RevisionTemplate] = field(default_factory=dict)
    unseen: str = ""
    restored_at: str = ""
    named_by: str = ""

    @property
    def named_revisions(self) -> list[str]:
        """The revisions that the status gives a part, each once."""
        named = (self.latest_ready, self.latest_created, self.latest_rolledout, self.previous_rolledout)
        return list(dict.fromkeys(name for name in named if name))

    @property
    def lacks_behind(self) -> bool:
        """Whether the Knative Service was not read, and it is not known why it cannot be."""
        return self.knative is None and not self.unseen

    @property
    def is_acted_on(self) -> bool:
        """Whether KServe has passed the present spec on to Knative: the model to serve, and its percent."""
        if self.knative is None:
            return False
        wanted = 100 if self.canary_percent is None else self.canary_percent
        named = RevisionTemplate(self.storage_uri, self.restored_at)
        return (self.knative.template, self.knative.latest_percent) == (named, wanted)

    def serves(self, revision: str) -> str:
        """Return what a revision serves, by its own template; "" if that was not read, or does not tell."""
        made = self.revisions.get(revision)
        return "" if made is None else made.storage_uri

    @property
    def has_served_another(self) -> bool:
        """Whether a revision was rolled out before, or one that the status names serves another version."""
        served = {self.serves(name) for name in self.named_revisions} - {"", self.storage_uri}
        return bool(self.previous_rolledout or served)

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

    def revision_of(self, storage_uri: str) -> str:
        """Return the revision that serves `storage_uri`, or did before it was rolled back; "" if none is known."""
        if self.storage_uri == storage_uri:
            return self.latest_created
        return self.annotation(REPLACED_REVISION) if self.annotation(ROLLED_BACK_URI) == storage_uri else ""

    def candidate_revision(self, storage_uri: str) -> str:
        """Return the candidate's revision; before Knative has made it the newest one is the stable one."""
        found = self.revision_of(storage_uri)
        return "" if found == self.annotation(STABLE_REVISION) else found

    def is_shielded_from(self, storage_uri: str) -> bool:
        """Return whether no user is led to `storage_uri`: the spec gives it nothing, and no traffic was seen on it."""
        if not self.is_led_so or (self.storage_uri == storage_uri and self.canary_percent != 0):
            return False
        led = {revision for revision, share in self.traffic.items() if share > 0}
        if self.canary_percent is None:
            # Whoever is the latest ready one gets everyone, as soon as KServe acts on it.
            return self.is_acted_on and bool(led) and all(self._is_off(one, storage_uri) for one in led)
        # The rest leads to what is rolled out.
        return all(self._is_off(one, storage_uri) for one in {*led, self.latest_rolledout})

    def _is_off(self, revision: str, storage_uri: str) -> bool:
        """Whether a revision is known to serve something else, by its template, or else by our own note of it."""
        if self.serves(revision):
            return self.serves(revision) != storage_uri
        is_noted = revision == self.annotation(STABLE_REVISION) != ""
        return is_noted and self.annotation(STABLE_URI) not in ("", storage_uri)

    @property
    def traffic_doubt(self) -> str:
        """Why it is not certain that the router has applied the traffic, as a sentence; "" if nothing speaks against
        it.
        """
        pending = self.route_pending or self._service_pending
        if not pending:
            return ""
        shares = ", ".join(f"{percent} % to {revision}" for revision, percent in self.traffic.items())
        return f" Knative intends {shares or 'no traffic'}; {pending}."


def observe_knative(
    isvc: Object,
    obstacles: tuple[str, ...],
    *,
    service: Any = None,
    revisions: tuple[Object, ...] = (),
    unseen: str = "",
) -> KnativeObserved:
    """Read an InferenceService in Knative mode.

    :param obstacles: why no canary can work on it.
    :param service: the Knative Service; None: it was not read, or cannot be.
    :param revisions: those that the status names.
    :param unseen: why one of these could not be read.
    """
    metadata, spec, status = (mapping(isvc.get(part)) for part in ("metadata", "spec", "status"))
    predictor = mapping(spec.get("predictor"))
    component = mapping(mapping(status.get("components")).get("predictor"))
    raw_percent = predictor.get("canaryTrafficPercent")
    view = knative_view(status, component, percent(raw_percent))
    model_status = mapping(status.get("modelStatus"))
    return KnativeObserved(
        **common_facts(isvc),
        storage_uri=text(mapping(predictor.get("model")).get("storageUri")),
        canary_percent=percent(raw_percent),
        latest_created=text(component.get("latestCreatedRevision")),
        latest_ready=text(component.get("latestReadyRevision")),
        latest_rolledout=text(component.get("latestRolledoutRevision")),
        previous_rolledout=text(component.get("previousRolledoutRevision")),
        traffic=view.shares,
        traffic_current=view.is_whole and not view.route_pending,
        route_pending=view.route_pending,
        route_reported=view.route_reported,
        urls=view.urls,
        transition=text(model_status.get("transitionStatus")),
        failure=load_failure(model_status, text(component.get("latestCreatedRevision"))),
        annotations=texts(metadata.get("annotations")),
        obstacles=obstacles,
        knative=knative_service(service, text(metadata.get("name")), text(metadata.get("uid"))),
        revisions=revision_templates(revisions),
        unseen=unseen,
        named_by=manager_of(metadata, "spec", "predictor", "model", "storageUri"),
        restored_at=texts(predictor.get("annotations")).get(RESTORED_AT, ""),
        unreadable=()
        if raw_percent is None or is_percent(raw_percent)
        else ("spec.predictor.canaryTrafficPercent",),
    )
