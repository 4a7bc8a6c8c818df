"""What KServe's admission webhook refuses about an InferenceService, beyond its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from include.sandbox.cluster.admission.canary_rules import canary_denial
from include.sandbox.cluster.admission.schemas import MODEL_FRAMEWORKS
from include.sandbox.cluster.errors import ApiError
from include.sandbox.cluster.resources import KubeObject

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_WEBHOOK = "inferenceservice.kserve-webhook-server.validator"
_DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"
_DEPLOYMENT_MODES = ("Knative", "Serverless", "Standard", "RawDeployment", "ModelMesh")


def admit_inference_service(before: KubeObject | None, service: KubeObject) -> KubeObject:
    """Return `service` as it is.

    :raises ApiError: 403, in the words of the webhook, which would deny it.
    """
    reason = _denial(before, service)
    if reason:
        message = f'admission webhook "{_WEBHOOK}" denied the request: {reason}'
        raise ApiError(403, "Forbidden", message)
    return service


def _denial(before: KubeObject | None, service: KubeObject) -> str | None:
    metadata, predictor = service["metadata"], service["spec"]["predictor"]
    if not _NAME.fullmatch(metadata["name"]):
        return (
            f'the InferenceService "{metadata["name"]}" is invalid: a InferenceService name must consist of lower case '
            "alphanumeric characters or '-', and must start with alphabetical character "
            f"(regex used for validation is '{_NAME.pattern}')"
        )
    return (
        _deployment_mode_denial(before, metadata)
        or _implementation_denial(predictor)
        or _model_name_denial(predictor)
        or _scale_denial(predictor)
        or canary_denial(before, service)
    )


def _deployment_mode_denial(before: KubeObject | None, metadata: Mapping[str, Any]) -> str | None:
    mode = metadata.get("annotations", {}).get(_DEPLOYMENT_MODE)
    if mode is not None and mode not in _DEPLOYMENT_MODES:
        return f"{_DEPLOYMENT_MODE} {mode!r} is none of {', '.join(_DEPLOYMENT_MODES)}"
    running = (before or {}).get("status", {}).get("deploymentMode")
    if running and mode and _same_mode(mode) != _same_mode(running):
        return f"update rejected: deploymentMode cannot be changed from '{running}' to '{mode}'"
    return None


def _same_mode(mode: str) -> str:
    """Tell whether two names mean one mode: modes were renamed, and the old names are still in use."""
    return {"Serverless": "Knative", "RawDeployment": "Standard"}.get(mode, mode)


def _implementation_denial(predictor: Mapping[str, Any]) -> str | None:
    # A predictor with both a model and containers is a model with sidecars.
    given = [name for name in (*MODEL_FRAMEWORKS, "model") if predictor.get(name) is not None]
    if len(given) == 1 or (not given and predictor.get("containers")):
        return None
    names = ", ".join((*MODEL_FRAMEWORKS, "model", "containers"))
    found = ", ".join(given) or "none"
    return f"exactly one of [{names}] must be specified in PredictorSpec; found {found}"


def _model_name_denial(predictor: Mapping[str, Any]) -> str | None:
    for framework in (*MODEL_FRAMEWORKS, "model"):
        if (predictor.get(framework) or {}).get("name"):
            return "the 'name' field is not allowed in standard predictor"
    return None


def _scale_denial(predictor: Mapping[str, Any]) -> str | None:
    least, most = predictor.get("minReplicas", 1), predictor.get("maxReplicas", 0)
    if least < 0:
        return "'MinReplicas' cannot be less than 0"
    if most < 0:
        return "'MaxReplicas' cannot be less than 0"
    if most and least > most:
        return "'MinReplicas' cannot be greater than MaxReplicas"
    if predictor.get("containerConcurrency", 0) < 0:
        return "parallelism cannot be less than 0"
    return None
