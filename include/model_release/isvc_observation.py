"""What can be seen of an InferenceService in KServe's Knative dialect, as one value.

What the fields mean, read in KServe's source (`inference_service_status.go`, `ksvc_reconciler.go`, 0.15 to
0.20):

- `latestCreated` is the newest revision, `latestReady` the newest that answers, `latestRolledout` the one
  that last had all traffic as the latest, `previousRolledout` the one before it.
- With a percent p the targets are {latestReady: p, latestRolledout: 100 - p}; without one, latestReady alone.
- Where all traffic is on one revision that is latestCreated, latestReady and latestRolledout, and p is below
  100, the controller sets latestRolledout back to previousRolledout: a percent without a new spec leads to
  the model before.
- `status.observedGeneration` is copied from the Knative Service, whose generations are counted apart
  (kserve#6081). It may lag for ever or run ahead. So progress is proved by revision names, and the generation
  only breaks ties.
- An InferenceService's annotations are copied into the Knative revision template (kserve#3710), so a patch of
  annotations alone makes a new revision. Ours change only in patches that change the storageUri, which make
  one anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ANNOTATION_PREFIX = "slipway.dev/"
RELEASE = ANNOTATION_PREFIX + "release"
VERSION = ANNOTATION_PREFIX + "version"
CANDIDATE_URI = ANNOTATION_PREFIX + "candidate-uri"
STABLE_URI = ANNOTATION_PREFIX + "stable-uri"
STABLE_VERSION = ANNOTATION_PREFIX + "stable-version"
STABLE_REVISION = ANNOTATION_PREFIX + "stable-revision"
REPLACED_REVISION = ANNOTATION_PREFIX + "replaced-revision"
ROLLED_BACK_URI = ANNOTATION_PREFIX + "rolled-back-uri"


@dataclass(frozen=True)
class Observed:
    """One reading of an InferenceService. Revision names are "" where there is none; `traffic` is percent by
    revision.
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
    ready: bool = False
    transition: str = ""
    failure: str | None = None
    url: str | None = None
    uid: str = ""
    deployment_mode: str | None = None
    deleting: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def candidate_ready(self) -> bool:
        """Whether the newest revision answers requests."""
        return bool(self.latest_created) and self.latest_created == self.latest_ready

    @property
    def caught_up(self) -> bool:
        """Whether the status claims to be about this spec. A hint, no proof: see the module's docstring."""
        return self.observed_generation is not None and self.observed_generation >= self.generation

    @property
    def looks_settled(self) -> bool:
        """Whether everything in the status says that there is nothing left to do. Used only where no name can
        prove it.
        """
        return self.caught_up or (self.ready and self.transition == "UpToDate")

    @property
    def invalid_spec(self) -> bool:
        """Whether the controller refuses to act on the spec at all; then no revision will come of it."""
        return self.transition == "InvalidSpec"

    def share(self, revision: str) -> int:
        """Return the percent of traffic that `revision` was seen to get."""
        return self.traffic.get(revision, 0) if revision else 0

    def alone(self, revision: str) -> bool:
        """Whether `revision` was seen to get all the traffic."""
        return bool(revision) and {name for name, percent in self.traffic.items() if percent > 0} == {
            revision
        }

    def annotation(self, key: str) -> str:
        """Return one annotation, "" where it is not set."""
        return self.annotations.get(key, "")


def observe(isvc: Mapping[str, Any]) -> Observed:
    """Read an InferenceService (v1beta1, as the API returns it); a missing status reads as "nothing happened
    yet".
    """
    metadata, spec, status = (_mapping(isvc.get(part)) for part in ("metadata", "spec", "status"))
    predictor = _mapping(spec.get("predictor"))
    component = _mapping(_mapping(status.get("components")).get("predictor"))
    latest_ready = _text(component.get("latestReadyRevision"))
    percent = predictor.get("canaryTrafficPercent")
    return Observed(
        name=_text(metadata.get("name")),
        namespace=_text(metadata.get("namespace")),
        resource_version=_text(metadata.get("resourceVersion")),
        generation=int(metadata.get("generation") or 0),
        observed_generation=_whole(status.get("observedGeneration")),
        storage_uri=_text(_mapping(predictor.get("model")).get("storageUri")),
        canary_percent=_whole(percent),
        latest_created=_text(component.get("latestCreatedRevision")),
        latest_ready=latest_ready,
        latest_rolledout=_text(component.get("latestRolledoutRevision")),
        previous_rolledout=_text(component.get("previousRolledoutRevision")),
        traffic=_traffic(component.get("traffic"), latest_ready),
        ready=_condition_is_true(status, "Ready"),
        transition=_text(_mapping(status.get("modelStatus")).get("transitionStatus")),
        failure=_failure(_mapping(status.get("modelStatus")), _text(component.get("latestCreatedRevision"))),
        url=_text(status.get("url")) or None,
        uid=_text(metadata.get("uid")),
        deployment_mode=_text(status.get("deploymentMode")) or None,
        deleting="deletionTimestamp" in metadata,
        annotations={str(key): str(value) for key, value in _mapping(metadata.get("annotations")).items()},
    )


def _traffic(targets: Any, latest_ready: str) -> dict[str, int]:
    """Sum percents by revision: the same revision may be both `latest` and `prev`."""
    shares: dict[str, int] = {}
    for target in targets or []:
        revision = _text(target.get("revisionName")) or (latest_ready if target.get("latestRevision") else "")
        if revision:
            shares[revision] = shares.get(revision, 0) + int(target.get("percent") or 0)
    return shares


def _failure(model_status: Mapping[str, Any], latest_created: str) -> str | None:
    """Return why the newest revision does not load; None unless it is blocked now, for old failures stay in
    the status.
    """
    if model_status.get("transitionStatus") not in ("BlockedByFailedLoad", "InvalidSpec"):
        return None
    info = _mapping(model_status.get("lastFailureInfo"))
    if _text(info.get("modelRevisionName")) not in ("", latest_created):
        return None
    words = [
        _text(model_status.get("transitionStatus")),
        _text(info.get("reason")),
        _text(info.get("message")),
    ]
    return ": ".join(word for word in words if word)


def _condition_is_true(status: Mapping[str, Any], kind: str) -> bool:
    conditions = status.get("conditions") or []
    return any(item.get("type") == kind and item.get("status") == "True" for item in conditions)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
