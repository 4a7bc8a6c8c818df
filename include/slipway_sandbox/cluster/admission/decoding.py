"""What Go's JSON decoder says of a field that is of another type than the struct that it should go into."""

from __future__ import annotations

import re
from typing import Any

from slipway_sandbox.cluster.admission.schemas import COMPONENT_FIELDS
from slipway_sandbox.cluster.admission.structure import TypeProblem, type_name
from slipway_sandbox.cluster.resources import INFERENCE_SERVICES, Resource

# The structs of KServe by where they stand; a struct within that is embedded in it has its name in the path.
_STRUCTS = {
    "spec": "InferenceServiceSpec",
    "spec.predictor": "PredictorSpec",
    "spec.predictor.model": "ModelSpec",
    "spec.canary": "CanarySpec",
    "spec.canary.predictor": "PredictorSpec",
    "spec.canary.predictor.model": "ModelSpec",
}
_EMBEDDED = {
    "PredictorSpec": ("ComponentExtensionSpec", frozenset(COMPONENT_FIELDS)),
    "ModelSpec": (
        "PredictorExtensionSpec",
        frozenset({"storageUri", "storage", "runtimeVersion", "protocolVersion"}),
    ),
}
_TYPES = {"modelFormat": "ModelFormat"}
_LONG = frozenset({"canaryTrafficPercent", "containerConcurrency", "timeout"})
_SCALARS = {"integer": "int32", "string": "string", "boolean": "bool"}


def decoding_complaint(resource: Resource, problem: TypeProblem) -> str:
    """Return the decoder's words; exact for what the recordings have, alike for the rest."""
    if problem.why:
        return problem.why
    path = re.sub(r"\[\d+\]", "", problem.map_path or problem.path)
    structs = _STRUCTS if resource == INFERENCE_SERVICES else {}
    holder, _, field = path.rpartition(".")
    go_type = _type_of(problem, field, structs.get(path, _TYPES.get(field, "")))
    if holder == "metadata":
        return _complaint(problem.value, f"ObjectMeta.{field}", go_type)
    struct = structs.get(holder, resource.kind + ("Spec" if holder else ""))
    embedded, fields = _EMBEDDED.get(struct, ("", frozenset()))
    where = ".".join(part for part in (holder, embedded if field in fields else "", field) if part)
    return _complaint(problem.value, f"{struct}.{where}", go_type)


def _complaint(value: Any, field: str, go_type: str) -> str:
    found = type_name(value)
    shown = {"number": f"number {value}", "integer": "number", "boolean": "bool"}.get(found, found)
    return f"json: cannot unmarshal {shown} into Go struct field {field} of type {go_type}"


def _type_of(problem: TypeProblem, field: str, struct: str) -> str:
    if problem.expected == "integer" and field in _LONG:
        return "int64"
    if problem.expected in _SCALARS:
        return _SCALARS[problem.expected]
    return f"v1beta1.{struct}" if struct else "map[string]interface {}"
