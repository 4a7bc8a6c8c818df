"""Admission: what an object must be like before the store takes it, answered as the real API server answers.

Order as there: the body must decode, its metadata must be valid, then its own rules; last, what is valid is admitted
or forbidden. Pods are held to the restricted Pod Security Standard in every namespace, as if each were labelled
`pod-security.kubernetes.io/enforce: restricted`. What the emulator cannot do (init containers, restarting pods) is
refused by name rather than ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway_sandbox.cluster.admission.decoding import decoding_complaint
from slipway_sandbox.cluster.admission.http_route_rules import (
    route_problems,
    with_route_defaults,
    with_rules_unchecked,
)
from slipway_sandbox.cluster.admission.inference_service_defaults import DEFAULTER, with_service_defaults
from slipway_sandbox.cluster.admission.inference_service_rules import admit_inference_service
from slipway_sandbox.cluster.admission.metadata_rules import metadata_problems
from slipway_sandbox.cluster.admission.pod_rules import pod_problems, pod_update_problems, with_pod_defaults
from slipway_sandbox.cluster.admission.pod_security import violations
from slipway_sandbox.cluster.admission.schemas import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    KNATIVE_SERVICE,
    LEASE,
    NAMESPACE,
    POD,
    REVISION,
)
from slipway_sandbox.cluster.admission.structure import Findings, Schema, pruned
from slipway_sandbox.cluster.errors import (
    INVALID,
    DecodingError,
    FieldError,
    denied_by_webhook,
    forbidden,
    invalid,
)
from slipway_sandbox.cluster.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    HTTP_ROUTES,
    INFERENCE_SERVICES,
    KNATIVE_SERVICES,
    LEASES,
    NAMESPACES,
    PODS,
    REVISIONS,
    KubeObject,
    Resource,
)
from slipway_sandbox.cluster.settings import DEFAULT_DEPLOYMENT_MODE

_SCHEMAS: Mapping[Resource, Schema] = {
    PODS: POD,
    CONFIG_MAPS: CONFIG_MAP,
    EVENTS: EVENT,
    INFERENCE_SERVICES: INFERENCE_SERVICE,
    LEASES: LEASE,
    HTTP_ROUTES: HTTP_ROUTE,
    DEPLOYMENTS: DEPLOYMENT,
    KNATIVE_SERVICES: KNATIVE_SERVICE,
    REVISIONS: REVISION,
    NAMESPACES: NAMESPACE,
}
_EMPTY_EVENT: Mapping[str, Any] = {
    "eventTime": None,
    "firstTimestamp": None,
    "lastTimestamp": None,
    "reportingComponent": "",
    "reportingInstance": "",
    "source": {},
}


@dataclass
class Admission:
    """An object as it will be stored, and the fields that were dropped from it because nobody knows them."""

    obj: KubeObject
    unknown_fields: list[str] = field(default_factory=list)


def admit(
    resource: Resource,
    before: KubeObject | None,
    obj: KubeObject,
    *,
    default_deployment_mode: str = DEFAULT_DEPLOYMENT_MODE,
) -> Admission:
    """`obj` with defaults and without unknown fields; `before` is the stored one on an update, None on a
    create.

    Raises ApiError 400 (does not decode), 403 (Pod Security, KServe's webhook), 422 (invalid) or 500 (KServe's
    webhook panics).
    """
    name = str(obj.get("metadata", {}).get("name", ""))
    decoded = Findings(empty_is_missing=not resource.is_custom)
    clean: KubeObject = pruned(_without_nulls(obj), _SCHEMAS[resource], "", decoded)
    _require_types(resource, name, clean, decoded)
    clean = _with_defaults(resource, clean, default_deployment_mode)
    findings = Findings(empty_is_missing=not resource.is_custom)
    clean = pruned(clean, _SCHEMAS[resource], "", findings)
    problems = metadata_problems(resource, clean) + findings.values
    if resource == HTTP_ROUTES:
        problems = route_problems(clean, problems)
    if problems:
        raise invalid(resource, name, problems)
    return Admission(_by_kind(resource, before, clean), decoded.unknown)


def _require_types(resource: Resource, name: str, obj: KubeObject, decoded: Findings) -> None:
    """Raise ApiError where a part is of another type than its schema says.

    Built-in types are decoded into structs before anything else looks at them, and every object's metadata is. KServe's
    webhook decodes an InferenceService; other custom objects are checked by schema.
    """
    if not decoded.types:
        return
    first = decoded.types[0]
    if not resource.is_custom or first.path.startswith("metadata."):
        raise DecodingError(resource, obj, decoding_complaint(resource, first))
    if resource == INFERENCE_SERVICES:
        raise denied_by_webhook(DEFAULTER, decoding_complaint(resource, first), status=400, reason="")
    problems = [problem.field_error() for problem in decoded.types] + decoded.values
    raise invalid(resource, name, with_rules_unchecked(problems) if resource == HTTP_ROUTES else problems)


def _with_defaults(resource: Resource, obj: KubeObject, default_deployment_mode: str) -> KubeObject:
    """Return the object with what its schema or a webhook writes into it before it is checked."""
    if resource == INFERENCE_SERVICES:
        return with_service_defaults(obj, default_deployment_mode)
    if resource == HTTP_ROUTES and "spec" in obj:
        return with_route_defaults(obj)
    return obj


def _by_kind(resource: Resource, before: KubeObject | None, obj: KubeObject) -> KubeObject:
    rules: dict[Resource, Callable[[KubeObject | None, KubeObject], KubeObject]] = {
        PODS: _admit_pod,
        EVENTS: _admit_event,
        INFERENCE_SERVICES: admit_inference_service,
        LEASES: _admit_lease,
        NAMESPACES: _admit_namespace,
    }
    rule = rules.get(resource)
    return rule(before, obj) if rule else obj


def _admit_pod(before: KubeObject | None, pod: KubeObject) -> KubeObject:
    pod = with_pod_defaults(pod)
    problems = pod_problems(pod) if before is None else pod_update_problems(before, pod)
    name = pod["metadata"]["name"]
    if problems:
        raise invalid(PODS, name, problems)
    if before is None:
        if found := violations(pod):
            why = f'violates PodSecurity "restricted:latest": {", ".join(map(str, found))}'
            raise forbidden(PODS, name, why)
        pod["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    return pod


def _admit_event(before: KubeObject | None, event: KubeObject) -> KubeObject:
    """Check that the event is in the namespace of its object; without an eventTime no other rule holds.

    What Go writes even where it is empty is there.
    """
    namespace = event["involvedObject"].get("namespace", "")
    if (namespace or "default") != event["metadata"]["namespace"]:
        detail = f'"{namespace}": does not match event.namespace'
        problem = FieldError("involvedObject.namespace", INVALID, detail)
        raise invalid(EVENTS, event["metadata"]["name"], [problem])
    return {**_EMPTY_EVENT, **event}


def _admit_lease(before: KubeObject | None, lease: KubeObject) -> KubeObject:
    spec, problems = lease.get("spec", {}), []
    if spec.get("leaseDurationSeconds", 1) <= 0:
        detail = f"{spec['leaseDurationSeconds']}: must be greater than 0"
        problems.append(FieldError("spec.leaseDurationSeconds", INVALID, detail))
    if spec.get("leaseTransitions", 0) < 0:
        detail = f"{spec['leaseTransitions']}: must be greater than or equal to 0"
        problems.append(FieldError("spec.leaseTransitions", INVALID, detail))
    if problems:
        raise invalid(LEASES, lease["metadata"]["name"], problems)
    for key in ("acquireTime", "renewTime"):
        if key in spec:
            moment = datetime.fromisoformat(spec[key]).astimezone(UTC)
            spec[key] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return lease


def _admit_namespace(before: KubeObject | None, namespace: KubeObject) -> KubeObject:
    if before is None:
        namespace["status"] = {"phase": "Active"}
    return namespace


def strict_decoding_error(resource: Resource, admission: Admission) -> DecodingError:
    """Return the error 400 by which `fieldValidation=Strict` refuses unknown fields."""
    unknown = ", ".join(f'unknown field "{path}"' for path in admission.unknown_fields)
    return DecodingError(resource, admission.obj, f"strict decoding error: {unknown}")


def _without_nulls(obj: KubeObject) -> KubeObject:
    """Return the object without the fields that are null, which clients send for what they left unset."""
    return {key: _null_free(value) for key, value in obj.items() if value is not None}


def _null_free(value: Any) -> Any:
    if isinstance(value, dict):
        return _without_nulls(value)
    return [_null_free(item) for item in value] if isinstance(value, list) else value
