"""KServe's mutating webhook for InferenceServices: what it writes into an object before anything checks it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from slipway_sandbox.cluster.admission.schemas import MODEL_FRAMEWORKS
from slipway_sandbox.cluster.errors import denied_by_webhook
from slipway_sandbox.cluster.resources import KubeObject

DEFAULTER = "inferenceservice.kserve-webhook-server.defaulter"
DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"
# Modes were renamed; the webhook writes the new name over the old one.
_RENAMED_MODES = {"Serverless": "Knative", "RawDeployment": "Standard"}
_PANIC = "panic: runtime error: index out of range [0] with length 0 [recovered]"
_FORMAT_ANNOTATION = "modelFormat"
_TRITON = "triton"
# A predictor that is a container of its author's own.
_OWN_CONTAINER = "kserve-container"
_OWN_SIZE = {"cpu": "1", "memory": "2Gi"}


def with_service_defaults(service: KubeObject, default_mode: str) -> KubeObject:
    """Return a copy of `service` as the webhook leaves it.

    What Go's structs hold is written back: a model has a name and resources, be they empty.

    :param default_mode: inferenceservice-config's defaultDeploymentMode.
    :raises ApiError: 500, the predictor runs nothing: the webhook panics.
    """
    service = deepcopy(service)
    predictor = service.get("spec", {}).get("predictor") or {}
    _framework_to_model(predictor)
    if not _runs_something(predictor):
        raise denied_by_webhook(DEFAULTER, _PANIC, status=500, reason="")
    _fill_structs(predictor)
    annotations = service["metadata"].setdefault("annotations", {})
    mode = annotations.get(DEPLOYMENT_MODE, default_mode)
    annotations[DEPLOYMENT_MODE] = _RENAMED_MODES.get(mode, mode)
    model = predictor.get("model")
    if model is not None:
        model_format = model["modelFormat"]["name"]
        if model_format:
            annotations[_FORMAT_ANNOTATION] = model_format
        if model_format == _TRITON:
            model.setdefault("protocolVersion", "v2")
    for canary in service["spec"].get("canary") or ():
        canary.setdefault("trafficPercent", 0)
        _fill_structs(canary.setdefault("predictor", {}))
    return service


def _framework_to_model(predictor: dict[str, Any]) -> None:
    """Turn the old form, a field named after the framework, into a model; a model beside it is lost."""
    framework = next((name for name in MODEL_FRAMEWORKS if name in predictor), None)
    if framework:
        predictor["model"] = {"modelFormat": {"name": framework}, **predictor.pop(framework)}


def _runs_something(predictor: dict[str, Any]) -> bool:
    return "model" in predictor or bool(predictor.get("containers"))


def _fill_structs(predictor: dict[str, Any]) -> None:
    """Write down the fields that Go writes even where they are empty."""
    model = predictor.get("model")
    if model is not None:
        model.setdefault("modelFormat", {}).setdefault("name", "")
        model.setdefault("name", "")
    containers = predictor.get("containers") or []
    if model is None and len(containers) == 1:
        containers[0]["name"] = _OWN_CONTAINER
        containers[0].setdefault("resources", {"limits": dict(_OWN_SIZE), "requests": dict(_OWN_SIZE)})
    for container in [*containers, *([] if model is None else [model])]:
        container.setdefault("resources", {})
        for variable in container.get("env") or ():
            variable.setdefault("name", "")
