"""A question to a Kubernetes API server: a request as data, the same to the emulator and to a real server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAMESPACE = "models"
ABSENT_NAMESPACE = "nowhere"
SERVICES = f"/apis/serving.kserve.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices"
ROUTES = f"/apis/gateway.networking.k8s.io/v1/namespaces/{NAMESPACE}/httproutes"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

# Stands in a body for the uid of the InferenceService that the first question made.
UID = "(uid of the first InferenceService)"
OTHER_UID = "11111111-1111-1111-1111-111111111111"

Body = Mapping[str, Any] | list[Any] | str | None
MODEL = {"modelFormat": {"name": "triton"}, "storageUri": "s3://models/table/1/repository"}
CANDIDATE_MODEL = {"modelFormat": {"name": "triton"}, "storageUri": "s3://models/table/2/repository"}


@dataclass(frozen=True)
class Question:
    """One request.

    :param name: what tests and the list of differences call it; each has another.
    :param body: JSON; a text goes over the wire as it is.
    :param wrong_token: the request carries a token that nobody has.
    :param settles: the next question waits until the controller has taken up what this one made or deleted.
    :param leaves: the path of what the answer may have made, deleted before the next question.
    """

    name: str
    method: str
    path: str
    body: Body = None
    content_type: str = JSON
    wrong_token: bool = False
    settles: bool = False
    leaves: str = ""

    def request(self) -> dict[str, Any]:
        """Return what is sent, as the recordings have it beside the answer."""
        return {
            "method": self.method,
            "path": self.path,
            "content_type": self.content_type,
            "body": self.body,
        }


def get(name: str, path: str, **more: Any) -> Question:
    """Return a question by GET."""
    return Question(name, "GET", path, **more)


def post(name: str, path: str, body: Body, **more: Any) -> Question:
    """Return a question by POST."""
    return Question(name, "POST", path, body, **more)


def patch(name: str, path: str, body: Body, content_type: str = MERGE_PATCH) -> Question:
    """Return a question by PATCH."""
    return Question(name, "PATCH", path, body, content_type)


def service(
    name: str,
    /,
    *,
    mode: str = "Standard",
    canary: list[dict[str, Any]] | None = None,
    model: object = MODEL,
    metadata: Mapping[str, Any] | None = None,
    **predictor: Any,
) -> dict[str, Any]:
    """Return an InferenceService; `mode` is its annotation, "" for none, and `predictor` adds to its predictor."""
    annotations = {"serving.kserve.io/deploymentMode": mode} if mode else {}
    spec: dict[str, Any] = {"predictor": {"minReplicas": 1, "model": model, **predictor}}
    if canary is not None:
        spec["canary"] = canary
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations, **(metadata or {})},
        "spec": spec,
    }


def canary(percent: object, name: str | None = "v2", **predictor: Any) -> dict[str, Any]:
    """Return an entry of `spec.canary`; `name` None leaves the name out."""
    own: dict[str, Any] = {"model": CANDIDATE_MODEL, **predictor}
    if name is not None:
        own["name"] = name
    return {"trafficPercent": percent, "predictor": own}
