"""Admission: what an object must be like before the store takes it, answered as the real API server answers.

Order as there: the body must decode, its metadata must be valid, then its own rules; last, what is valid is admitted
or forbidden. Pods are held to the restricted Pod Security Standard in every namespace, as if each were labelled
`pod-security.kubernetes.io/enforce: restricted`. What the emulator cannot do (init containers, restarting pods) is
refused by name rather than ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from include.sandbox.cluster.admission.inference_service_rules import admit_inference_service
from include.sandbox.cluster.admission.pod_rules import pod_problems, pod_update_problems, with_pod_defaults
from include.sandbox.cluster.admission.pod_security import violations
from include.sandbox.cluster.admission.schemas import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    LEASE,
    NAMESPACE,
    POD,
)
from include.sandbox.cluster.admission.structure import Findings, Schema, pruned
from include.sandbox.cluster.errors import (
    INVALID,
    REQUIRED,
    ApiError,
    FieldError,
    bad_request,
    forbidden,
    invalid,
)
from include.sandbox.cluster.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    HTTP_ROUTES,
    INFERENCE_SERVICES,
    LEASES,
    NAMESPACES,
    PODS,
    KubeObject,
    Resource,
)

_SCHEMAS: Mapping[Resource, Schema] = {
    PODS: POD,
    CONFIG_MAPS: CONFIG_MAP,
    EVENTS: EVENT,
    INFERENCE_SERVICES: INFERENCE_SERVICE,
    LEASES: LEASE,
    HTTP_ROUTES: HTTP_ROUTE,
    DEPLOYMENTS: DEPLOYMENT,
    NAMESPACES: NAMESPACE,
}
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME_MAX_CHARS = 253
_ANNOTATIONS_MAX_BYTES = 256 * 1024


@dataclass
class Admission:
    """An object as it will be stored, and the fields that were dropped from it because nobody knows them."""

    obj: KubeObject
    unknown_fields: list[str] = field(default_factory=list)


def admit(resource: Resource, before: KubeObject | None, obj: KubeObject) -> Admission:
    """`obj` with defaults and without unknown fields; `before` is the stored one on an update, None on a
    create.

    Raises ApiError 400 (does not decode), 403 (Pod Security, KServe's webhook) or 422 (invalid).
    """
    name = str(obj.get("metadata", {}).get("name", ""))
    findings = Findings()
    clean: KubeObject = pruned(_without_nulls(obj), _SCHEMAS[resource], "", findings)
    # Built-in types are decoded into structs before anything else looks at them; custom ones are checked by
    # schema.
    if findings.types and not resource.is_custom:
        first = findings.types[0]
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {first}'
        )
    problems = findings.types + findings.values
    if not findings.types:
        problems = _metadata_problems(resource, clean) + problems
    if problems:
        raise invalid(resource, name, problems)
    return Admission(_by_kind(resource, before, clean), findings.unknown)


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
    """Check that the event is in the namespace of its object; without an eventTime no other rule holds."""
    namespace = event["involvedObject"].get("namespace", "")
    if (namespace or "default") != event["metadata"]["namespace"]:
        detail = f'"{namespace}": does not match event.namespace'
        problem = FieldError("involvedObject.namespace", INVALID, detail)
        raise invalid(EVENTS, event["metadata"]["name"], [problem])
    return event


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
    return lease


def _admit_namespace(before: KubeObject | None, namespace: KubeObject) -> KubeObject:
    if before is None:
        namespace["status"] = {"phase": "Active"}
    return namespace


def _metadata_problems(resource: Resource, obj: KubeObject) -> list[FieldError]:
    metadata = obj.get("metadata", {})
    problems = _name_problems(resource, str(metadata.get("name", "")))
    for key, value in metadata.get("labels", {}).items():
        problems += _key_problems("metadata.labels", key)
        if not _LABEL_VALUE.fullmatch(value):
            detail = (
                f'"{value}": a valid label must be an empty string or at most 63 characters of alphanumerics, '
                "'-', '_' or '.', and must start and end with an alphanumeric character"
            )
            problems.append(FieldError("metadata.labels", INVALID, detail))
    annotations = metadata.get("annotations", {})
    for key in annotations:
        problems += _key_problems("metadata.annotations", key)
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > _ANNOTATIONS_MAX_BYTES
    ):
        detail = f"may not be more than {_ANNOTATIONS_MAX_BYTES} bytes"
        problems.append(FieldError("metadata.annotations", INVALID, detail))
    return problems


def _name_problems(resource: Resource, name: str) -> list[FieldError]:
    if not name:
        return [FieldError("metadata.name", REQUIRED, "name or generateName is required")]
    pattern = _DNS_LABEL if resource == NAMESPACES else _DNS_SUBDOMAIN
    if pattern.fullmatch(name) and len(name) <= _NAME_MAX_CHARS:
        return []
    detail = (
        f"\"{name}\": a lowercase RFC 1123 name must consist of lower case alphanumeric characters, '-' or '.', "
        f"must start and end with an alphanumeric character, and have at most {_NAME_MAX_CHARS} characters"
    )
    return [FieldError("metadata.name", INVALID, detail)]


def _key_problems(path: str, key: str) -> list[FieldError]:
    prefix, separator, name = key.rpartition("/")
    if _LABEL_NAME.fullmatch(name) and (not separator or _DNS_SUBDOMAIN.fullmatch(prefix)):
        return []
    detail = (
        f"\"{key}\": a qualified name must consist of at most 63 alphanumeric characters, '-', '_' or '.', "
        "with an optional DNS subdomain prefix and '/'"
    )
    return [FieldError(path, INVALID, detail)]


def check_namespace_name(name: str) -> None:
    """Raise ApiError 422 when `name` cannot be a namespace's."""
    if not _DNS_LABEL.fullmatch(name):
        detail = f'"{name}": a namespace must be a lowercase RFC 1123 label'
        raise invalid(NAMESPACES, name, [FieldError("metadata.namespace", INVALID, detail)])


def strict_decoding_error(resource: Resource, unknown_fields: list[str]) -> ApiError:
    """Return the error 400 by which `fieldValidation=Strict` refuses unknown fields."""
    unknown = ", ".join(f'unknown field "{path}"' for path in unknown_fields)
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"strict decoding error: {unknown}"
    )


def _without_nulls(obj: KubeObject) -> KubeObject:
    """Return the object without the fields that are null, which clients send for what they left unset."""
    return {key: _null_free(value) for key, value in obj.items() if value is not None}


def _null_free(value: Any) -> Any:
    if isinstance(value, dict):
        return _without_nulls(value)
    return [_null_free(item) for item in value] if isinstance(value, list) else value
