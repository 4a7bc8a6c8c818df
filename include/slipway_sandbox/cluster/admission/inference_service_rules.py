"""What KServe's admission webhook refuses about an InferenceService, beyond its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.admission.canary_rules import canary_denial
from slipway_sandbox.cluster.admission.inference_service_defaults import DEPLOYMENT_MODE
from slipway_sandbox.cluster.admission.predictor_rules import implementation_denial
from slipway_sandbox.cluster.admission.schemas import MODEL_FRAMEWORKS
from slipway_sandbox.cluster.errors import denied_by_webhook
from slipway_sandbox.cluster.resources import KubeObject

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
VALIDATOR = "inferenceservice.kserve-webhook-server.validator"


def admit_inference_service(before: KubeObject | None, service: KubeObject) -> KubeObject:
    """Return `service` as it is.

    :raises ApiError: 403, in the words of the webhook, which would deny it.
    """
    reason = _denial(before, service)
    if reason:
        raise denied_by_webhook(VALIDATOR, reason)
    return service


def _denial(before: KubeObject | None, service: KubeObject) -> str | None:
    metadata, predictor = service["metadata"], service["spec"]["predictor"]
    if not _NAME.fullmatch(metadata["name"]):
        return (
            f'the InferenceService "{metadata["name"]}" is invalid: a InferenceService name must consist of lower case '
            "alphanumeric characters or '-', and must start with alphabetical character. "
            f'(e.g. "my-name" or "abc-123", regex used for validation is \'{_NAME.pattern}\')'
        )
    return (
        _deployment_mode_denial(before, metadata)
        or implementation_denial(predictor)
        or _model_name_denial(predictor)
        or _scale_denial(predictor)
        or canary_denial(before, service)
    )


def _deployment_mode_denial(before: KubeObject | None, metadata: Mapping[str, Any]) -> str | None:
    """Return why a mode is refused: an object keeps the one that it was made with, whatever that is.

    KServe looks at the mode in the status, which its controller writes a moment after the object was made.
    """
    mode = metadata["annotations"][DEPLOYMENT_MODE]
    running = before["metadata"]["annotations"][DEPLOYMENT_MODE] if before else mode
    if mode != running:
        return f"update rejected: deploymentMode cannot be changed from '{running}' to '{mode}'"
    return None


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
