"""KServe's Knative mode as a pure state machine: an InferenceService and its revisions in, intended traffic out.

It follows KServe's predictor reconciler and status propagation together with Knative's Configuration and
Route, their traps included, because a release that is safe only against a friendlier machine is not safe:

- "latest" in a traffic target means the latest *ready* revision, not the one just created;
- `canaryTrafficPercent` is ignored until some revision has been rolled out;
- 100 % on "latest" records that revision as rolled out, whether or not it is the one the spec describes;
- a percent set once the latest revision is rolled out falls back to the revision rolled out *before* it;
- whatever reaches the revision template makes a new revision, the service's annotations and labels too
  (except the few that KServe's configuration keeps out); the percent alone does not, nor does the same template again;
- `status.observedGeneration` is the Knative Service's, not the InferenceService's;
- `status.modelStatus.lastFailureInfo` stays after the failure is fixed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from slipway_sandbox.kserve.annotations import SOURCE_URI, UNPROPAGATED_ANNOTATIONS
from slipway_sandbox.kserve.knative.traffic_rules import RolledOut, Target, rolled_out_after, targets

# Reconciling is a loop of its own observations; in practice it settles after three rounds.
MAX_ROUNDS = 8

Phase = Literal["pending", "ready", "failed"]
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Revision:
    """One immutable revision: its name, its place in the order, the digest of its template, and how it fares.

    `annotations` are the template's, which the revision keeps. `phase` is "ready" once it has been ready, forever
    after; `message` and `exit_code` tell of a failure.
    """

    name: str
    number: int
    template: str
    storage_uri: str
    phase: Phase = "pending"
    message: str = ""
    exit_code: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Predictor:
    """What KServe and Knative remember about one InferenceService's predictor.

    `generation` is that of the Knative Service, and `fingerprint` what its spec was when it got that.
    """

    revisions: tuple[Revision, ...] = ()
    latest_ready: str = ""
    latest_rolledout: str = ""
    previous_rolledout: str = ""
    traffic: tuple[Target, ...] = ()
    generation: int = 0
    fingerprint: str = ""
    last_failure: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def latest_created(self) -> Revision | None:
        """The revision of the present template."""
        return self.revisions[-1] if self.revisions else None

    def revision(self, name: str) -> Revision:
        """Return a revision by its name; raises `KeyError`."""
        for one in self.revisions:
            if one.name == name:
                return one
        raise KeyError(name)

    def needed(self) -> set[str]:
        """Return the names of the revisions that must run.

        These are the ones with a place in the traffic, even at 0 %, the latest created and the latest ready,
        and every pending one in between, since "latest" moves to it when it gets ready. All others scale to
        zero.
        """
        newest_ready = max((one.number for one in self.revisions if one.name == self.latest_ready), default=0)
        waiting = {one.name for one in self.revisions if one.phase != "ready" and one.number > newest_ready}
        routed = {target.revision for target in self.traffic}
        created = {self.latest_created.name} if self.latest_created else set()
        return (waiting | routed | created | {self.latest_ready}) - {""}


def template_of(service: Object, unpropagated: Iterable[str] = UNPROPAGATED_ANNOTATIONS) -> dict[str, Any]:
    """Return what of an InferenceService goes into the Knative revision template."""
    metadata = service["metadata"]
    kept_out = set(unpropagated)
    predictor = {
        key: value for key, value in service["spec"]["predictor"].items() if key != "canaryTrafficPercent"
    }
    # The predictor's own go first.
    annotated = {**(metadata.get("annotations") or {}), **(predictor.pop("annotations", None) or {})}
    annotations = {key: value for key, value in annotated.items() if key not in kept_out}
    return {"annotations": annotations, "labels": dict(metadata.get("labels") or {}), "predictor": predictor}


def template_digest(template: Mapping[str, Any]) -> str:
    """Return the digest by which two templates are known to be the same."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:16]


def storage_uri_of(service: Object) -> str:
    """Return the predictor's storageUri, of the new or the old form of the spec; empty if there is none."""
    predictor = service["spec"]["predictor"]
    model = predictor.get("model") or predictor.get("triton") or {}
    return str(model.get("storageUri") or "")


def accept(
    predictor: Predictor, service: Object, unpropagated: Iterable[str] = UNPROPAGATED_ANNOTATIONS
) -> Predictor:
    """Take an InferenceService's spec: a template that differs from the last one becomes a new revision."""
    template = template_of(service, unpropagated)
    digest = template_digest(template)
    created = predictor.latest_created
    if created is not None and created.template == digest:
        return predictor
    number = created.number + 1 if created else 1
    name = f"{service['metadata']['name']}-predictor-{number:05d}"
    uri = storage_uri_of(service)
    new = Revision(name, number, digest, uri, annotations={**template["annotations"], SOURCE_URI: uri})
    return replace(predictor, revisions=(*predictor.revisions, new))


def settle(predictor: Predictor, canary_percent: int | None, *, tag_latest: bool = False) -> Predictor:
    """Move traffic and the rolled-out marks as KServe and Knative do, until nothing moves any more."""
    for _ in range(MAX_ROUNDS):
        after = _reconcile(predictor, canary_percent, tag_latest)
        if after == predictor:
            break
        predictor = after
    return predictor


def _reconcile(before: Predictor, canary_percent: int | None, tag_latest: bool) -> Predictor:
    """Return one round: the Route's targets from what is known so far, then what KServe concludes from them."""
    latest_ready = _latest_ready(before)
    traffic = _targets(replace(before, latest_ready=latest_ready), canary_percent, tag_latest)
    after = replace(before, latest_ready=latest_ready, traffic=traffic)
    fingerprint = _service_spec(after)
    if fingerprint != before.fingerprint:
        after = replace(after, generation=before.generation + 1, fingerprint=fingerprint)
    after = _mark_rolledout(after)
    return replace(after, last_failure=_failure(after) or before.last_failure)


def _latest_ready(predictor: Predictor) -> str:
    ready = [one for one in predictor.revisions if one.phase == "ready"]
    return max(ready, key=lambda one: one.number).name if ready else predictor.latest_ready


def _targets(predictor: Predictor, canary_percent: int | None, tag_latest: bool) -> tuple[Target, ...]:
    if not predictor.latest_ready:
        return ()
    return targets(
        canary_percent,
        latest_ready=predictor.latest_ready,
        rolled_out=predictor.latest_rolledout,
        tag_latest=tag_latest,
    )


def _mark_rolledout(predictor: Predictor) -> Predictor:
    """Conclude from the traffic which revision is rolled out, as KServe's status propagation does."""
    created = predictor.latest_created
    now = rolled_out_after(
        RolledOut(predictor.latest_rolledout, predictor.previous_rolledout),
        predictor.traffic,
        latest_created=created.name if created else "",
        latest_ready=predictor.latest_ready,
    )
    return replace(predictor, latest_rolledout=now.latest, previous_rolledout=now.previous)


def _failure(predictor: Predictor) -> dict[str, Any] | None:
    created = predictor.latest_created
    if created is None or created.phase != "failed":
        return None
    return {"reason": "ModelLoadFailed", "message": created.message, "exitCode": created.exit_code}


def _service_spec(predictor: Predictor) -> str:
    """Return what the Knative Service's own spec consists of: when it changes, its generation does.

    A target names "latest" or a revision; which revision "latest" is now is no part of the spec.
    """
    created = predictor.latest_created
    lines = [("latest" if one.latest else one.revision, one.percent, one.tag) for one in predictor.traffic]
    return json.dumps([created.template if created else "", lines or [("latest", 100, "")]])


def with_revision(predictor: Predictor, name: str, **changes: Any) -> Predictor:
    """Return the predictor with one revision changed; one that has been ready stays "ready"."""

    def changed(one: Revision) -> Revision:
        kept = {"phase": "ready"} if one.phase == "ready" else {}
        return replace(one, **{**changes, **kept})

    revisions = tuple(changed(one) if one.name == name else one for one in predictor.revisions)
    return replace(predictor, revisions=revisions)


def forget_old(predictor: Predictor, keep: int = 20) -> Predictor:
    """Drop the oldest revisions that nothing refers to, so that the state does not grow forever."""
    referred = predictor.needed() | {predictor.latest_rolledout, predictor.previous_rolledout}
    recent = {one.name for one in predictor.revisions[-keep:]}
    kept = tuple(one for one in predictor.revisions if one.name in referred | recent)
    return replace(predictor, revisions=kept)
