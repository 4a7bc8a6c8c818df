"""The keys under which slipway leaves notes on an InferenceService, and plain readings of its loosely typed parts.

The object is the API server's, but by another version's schema, and its annotations are anybody's. Nothing here
raises: what cannot be read must not keep a rollback from its work. It reads as "nothing known", a percent as all of the
traffic.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

API_VERSION = "serving.kserve.io/v1beta1"
# By this name the API server's `metadata.managedFields` tell of what slipway has changed last.
FIELD_MANAGER = "slipway"

ANNOTATION_PREFIX = "slipway.dev/"
RELEASE = ANNOTATION_PREFIX + "release"
VERSION = ANNOTATION_PREFIX + "version"
CANDIDATE_URI = ANNOTATION_PREFIX + "candidate-uri"
STABLE_URI = ANNOTATION_PREFIX + "stable-uri"
STABLE_VERSION = ANNOTATION_PREFIX + "stable-version"
STABLE_REVISION = ANNOTATION_PREFIX + "stable-revision"
# Standard mode: stable's minReplicas before the canary, how many replicas it had then, and the candidate's first ones.
STABLE_MIN_REPLICAS = ANNOTATION_PREFIX + "stable-min-replicas"
STABLE_REPLICAS = ANNOTATION_PREFIX + "stable-replicas"
FIRST_REPLICAS = ANNOTATION_PREFIX + "first-replicas"
REPLACED_REVISION = ANNOTATION_PREFIX + "replaced-revision"
ROLLED_BACK_URI = ANNOTATION_PREFIX + "rolled-back-uri"
# The generation that the patch which began a preview made: percent 0 is a preview's only in that one.
PREVIEW_GENERATION = ANNOTATION_PREFIX + "preview-generation"
# Likewise of the patch that began a canary in Standard mode, where pods come up before the first percent.
START_GENERATION = ANNOTATION_PREFIX + "start-generation"
# A rollback took the canary to percent 0 before the controller had noted any other: its note of 0 proves nothing then.
UNNOTED_RAISE = ANNOTATION_PREFIX + "unnoted-raise"
# Knative mode, in the predictor's own annotations, which are part of the spec: the generation in which a rollback named
# the good version. KServe carries it to the revision's template, so the revision shows which naming it is of.
RESTORED_AT = ANNOTATION_PREFIX + "restored-at-generation"
TRANSFORMER = ANNOTATION_PREFIX + "transformer"
NO_TRANSFORMER = "none"

_INT64 = 2**63

# KServe notes in the template of what it makes, in either mode, what the storage initializer is to fetch.
SOURCE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"

# KServe then tags the latest ready revision `latest`, which gives it its own host.
TAG_ROUTING = "serving.kserve.io/enable-tag-routing"

DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"
# Standard mode: while half of a Deployment's pods answer, it is available, and KServe writes the routes.
ROLLING_UPDATE = {"maxUnavailable": "50%"}

# KServe renamed its modes; both names are in use.
_MODES = {"Serverless": "Knative", "RawDeployment": "Standard"}


def deployment_mode(isvc: Mapping[str, Any]) -> str:
    """Return `Knative`, `Standard` or another mode; "" if neither the status nor an annotation names one.

    The status goes first: it is what the controller acts on.
    """
    annotations = mapping(mapping(isvc.get("metadata")).get("annotations"))
    named = text(mapping(isvc.get("status")).get("deploymentMode")) or text(annotations.get(DEPLOYMENT_MODE))
    return _MODES.get(named, named)


def transformer_digest(isvc: Mapping[str, Any]) -> str:
    """Return what tells one `spec.transformer` from another: a digest of 16 hex digits, NO_TRANSFORMER for none."""
    transformer = mapping(isvc.get("spec")).get("transformer")
    if not transformer:
        return NO_TRANSFORMER
    return hashlib.sha256(json.dumps(transformer, sort_keys=True).encode()).hexdigest()[:16]


def condition_is_true(status: Mapping[str, Any], kind: str) -> bool:
    """Return whether the condition of this type says "True"."""
    return any(item.get("status") == "True" for item in conditions(status, kind))


def conditions(status: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the conditions of this type: one, or none where the status does not tell."""
    return [item for item in items(status.get("conditions")) if item.get("type") == kind]


def is_made_for(metadata: Mapping[str, Any], service: str, uid: str) -> bool:
    """Return whether KServe has made an object for this very InferenceService, and keeps it as it wants it."""
    return any(
        one.get("kind") == "InferenceService"
        and one.get("controller") is True
        and (one.get("name"), one.get("uid")) == (service, uid)
        for one in items(metadata.get("ownerReferences"))
    )


def load_failure(model_status: Mapping[str, Any], latest_created: str) -> str | None:
    """Return why the newest revision does not load; None unless it is blocked now, for old failures stay in
    the status.
    """
    if model_status.get("transitionStatus") not in ("BlockedByFailedLoad", "InvalidSpec"):
        return None
    info = mapping(model_status.get("lastFailureInfo"))
    if text(info.get("modelRevisionName")) not in ("", latest_created):
        return None
    words = [text(model_status.get("transitionStatus")), text(info.get("reason")), text(info.get("message"))]
    return ": ".join(word for word in words if word)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none where the value is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def texts(value: Any) -> dict[str, str]:
    """Return a mapping of text to text, as annotations and labels are."""
    return {text(key): text(item) for key, item in mapping(value).items()}


def text(value: Any) -> str:
    """Return the value if it is a text; "" for all else."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """Return a whole number of at most 64 bits; None for all else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_INT64 <= value < _INT64 else None


def percent(value: Any) -> int | None:
    """Return a whole percent from 0 to 100; None stays None, and all else is 100: nobody is safe by what it says."""
    if value is None:
        return None
    return value if is_percent(value) else 100


def is_percent(value: Any) -> bool:
    """Return whether the value is a whole percent from 0 to 100."""
    number = whole(value)
    return number is not None and 0 <= number <= 100


def manager_of(metadata: Mapping[str, Any], *path: str) -> str:
    """Return who changed a field last, as the API server keeps it; "" if it does not tell. Slipway goes first."""
    managers = []
    for one in items(metadata.get("managedFields")):
        node: Any = one.get("fieldsV1")
        for key in path:
            node = mapping(node).get(f"f:{key}")
        if node is not None:
            managers.append(text(one.get("manager")))
    return FIELD_MANAGER if FIELD_MANAGER in managers else next(iter(managers), "")


def common_facts(isvc: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an observation has from the same place in every dialect."""
    metadata, status = mapping(isvc.get("metadata")), mapping(isvc.get("status"))
    return {
        "name": text(metadata.get("name")),
        "namespace": text(metadata.get("namespace")),
        "uid": text(metadata.get("uid")),
        "resource_version": text(metadata.get("resourceVersion")),
        "generation": whole(metadata.get("generation")) or 0,
        "ready": condition_is_true(status, "Ready"),
        "url": text(status.get("url")) or None,
        "deleting": "deletionTimestamp" in metadata,
        "predictor": mapping(mapping(isvc.get("spec")).get("predictor")),
        "transformer": transformer_digest(isvc),
    }
