"""The Knative Service that KServe makes of an InferenceService's predictor, as far as its readers need it: its traffic.

While it lives KServe writes over what somebody else writes there. That it hangs is not emulated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from include.sandbox.cluster.errors import ApiError
from include.sandbox.kserve.knative.machine import Predictor
from include.sandbox.kserve.owner import owner
from include.sandbox.kserve.settings import Store

KNATIVE_SERVICES = "services"


def knative_service(predictor: Predictor, service: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Knative Service of an InferenceService; before a revision is ready the latest one has everybody."""
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
    metadata = service["metadata"]
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {
            "name": f"{metadata['name']}-predictor",
            "namespace": metadata["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "ownerReferences": [owner(service)],
        },
        "spec": {"traffic": targets or [{"latestRevision": True, "percent": 100}]},
    }


def write(store: Store, wanted: Mapping[str, Any]) -> None:
    """Have the Knative Service in the store; it stays as it is where nothing changed."""
    metadata = wanted["metadata"]
    try:
        store.merge_patch(KNATIVE_SERVICES, metadata["namespace"], metadata["name"], wanted)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        store.create(wanted)


def remove(store: Store, namespace: str, name: str) -> None:
    """Delete the Knative Service of an InferenceService, if there is one."""
    with contextlib.suppress(ApiError):
        store.delete(KNATIVE_SERVICES, namespace, f"{name}-predictor")


async def follow(store: Store, changed: Callable[[str, str], None]) -> None:
    """Tell of each Knative Service that somebody has written, by namespace and InferenceService, until cancelled."""
    async for _, found in store.watch(KNATIVE_SERVICES):
        for one in found["metadata"].get("ownerReferences", []):
            changed(found["metadata"]["namespace"], one["name"])
