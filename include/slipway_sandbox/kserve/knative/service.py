"""What Knative has of an InferenceService's predictor, as far as readers need it.

That is the Knative Service that KServe makes, with the template of its pods and its traffic, and the revisions.

While it lives KServe writes over what somebody else writes into the Knative Service. That it hangs is not emulated, and
neither is that Knative acts later than KServe.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from slipway_sandbox.cluster.errors import ApiError
from slipway_sandbox.kserve.knative.machine import Predictor, Revision
from slipway_sandbox.kserve.owner import owner
from slipway_sandbox.kserve.settings import Store

KNATIVE_SERVICES = "services"
REVISIONS = "revisions"
_SERVING = "serving.knative.dev"
_API_VERSION = f"{_SERVING}/v1"
_CONFIGURATION_LABEL, _SERVICE_LABEL = f"{_SERVING}/configuration", f"{_SERVING}/service"


def knative_service(
    predictor: Predictor, service: Mapping[str, Any], *, is_routed: bool = True
) -> dict[str, Any]:
    """Return the Knative Service of an InferenceService; before a revision is ready the latest one has everybody.

    Its status is what Knative says when it has done all of the spec, or as much as it can.
    """
    targets = [
        {
            **(
                {"latestRevision": True}
                if one.latest
                else {"latestRevision": False, "revisionName": one.revision}
            ),
            "percent": one.percent,
            **({"tag": one.tag} if one.tag else {}),
        }
        for one in predictor.traffic
    ]
    metadata, created = service["metadata"], predictor.latest_created
    annotations = dict(created.annotations) if created else {}
    is_led = is_routed and bool(predictor.traffic)
    is_ready = is_led and created is not None and created.phase == "ready"
    return {
        "apiVersion": _API_VERSION,
        "kind": "Service",
        "metadata": {
            "name": f"{metadata['name']}-predictor",
            "namespace": metadata["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "ownerReferences": [owner(service)],
            "generation": predictor.generation,
        },
        "spec": {
            "template": {"metadata": {"annotations": annotations}},
            "traffic": targets or [{"latestRevision": True, "percent": 100}],
        },
        "status": {
            "observedGeneration": predictor.generation,
            "latestCreatedRevisionName": created.name if created else "",
            "latestReadyRevisionName": predictor.latest_ready,
            "conditions": [
                {"type": "RoutesReady", "status": "True" if is_led else "Unknown"},
                {"type": "Ready", "status": "True" if is_ready else "Unknown"},
            ],
        },
    }


def revisions(predictor: Predictor, service: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the revisions of an InferenceService, as Knative has made them."""
    return [_revision(one, service["metadata"]) for one in predictor.revisions]


def _revision(one: Revision, metadata: Mapping[str, Any]) -> dict[str, Any]:
    made_by = f"{metadata['name']}-predictor"
    status = {"ready": "True", "failed": "False"}.get(one.phase, "Unknown")
    return {
        "apiVersion": _API_VERSION,
        "kind": "Revision",
        "metadata": {
            "name": one.name,
            "namespace": metadata["namespace"],
            "annotations": dict(one.annotations),
            "labels": {_CONFIGURATION_LABEL: made_by, _SERVICE_LABEL: made_by},
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


def write(store: Store, predictor: Predictor, service: Mapping[str, Any], *, is_routed: bool) -> None:
    """Have the Knative Service and its revisions in the store; what did not change stays as it is."""
    wanted = knative_service(predictor, service, is_routed=is_routed)
    metadata = wanted["metadata"]
    found = _found(store, KNATIVE_SERVICES, metadata["namespace"], metadata["name"])
    if found is None:
        found = store.create(wanted)
    else:
        gone = _annotations(found).keys() - _annotations(wanted).keys()
        template = {"metadata": {"annotations": {**dict.fromkeys(gone), **_annotations(wanted)}}}
        kept = {key: value for key, value in metadata.items() if key != "generation"}
        patch = {"metadata": kept, "spec": {**wanted["spec"], "template": template}}
        found = store.merge_patch(KNATIVE_SERVICES, metadata["namespace"], metadata["name"], patch)
    # The store counts the generations of what is in it.
    status = {**wanted["status"], "observedGeneration": found["metadata"]["generation"]}
    if found.get("status") != status:
        store.update_status(KNATIVE_SERVICES, metadata["namespace"], metadata["name"], status)
    _write_revisions(store, revisions(predictor, service), metadata["namespace"], metadata["name"])


def _write_revisions(store: Store, wanted: list[dict[str, Any]], namespace: str, made_by: str) -> None:
    there = {one["metadata"]["name"] for one in _revisions_of(store, namespace, made_by)}
    for one in wanted:
        name = one["metadata"]["name"]
        if name not in there:
            store.create(one)
        store.update_status(REVISIONS, namespace, name, one["status"])
    for name in there - {one["metadata"]["name"] for one in wanted}:
        store.delete(REVISIONS, namespace, name)


def _revisions_of(store: Store, namespace: str, made_by: str) -> list[dict[str, Any]]:
    found = store.list(REVISIONS, namespace)
    return [one for one in found if one["metadata"].get("labels", {}).get(_SERVICE_LABEL) == made_by]


def _annotations(service: Mapping[str, Any]) -> Mapping[str, Any]:
    template = service["spec"].get("template") or {}
    return (template.get("metadata") or {}).get("annotations") or {}


def _found(store: Store, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    try:
        return store.get(kind, namespace, name)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


def remove(store: Store, namespace: str, name: str) -> None:
    """Delete the Knative Service of an InferenceService, if there is one, and its revisions."""
    with contextlib.suppress(ApiError):
        store.delete(KNATIVE_SERVICES, namespace, f"{name}-predictor")
    _write_revisions(store, [], namespace, f"{name}-predictor")


async def follow(store: Store, changed: Callable[[str, str], None]) -> None:
    """Report each Knative Service that somebody has written, by namespace and InferenceService, until cancelled."""
    async for _, found in store.watch(KNATIVE_SERVICES):
        for one in found["metadata"].get("ownerReferences", []):
            changed(found["metadata"]["namespace"], one["name"])
