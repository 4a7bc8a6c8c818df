"""What makes a pod valid here, and the defaults that the real API server would fill in."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from slipway_sandbox.cluster.errors import FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, FieldError
from slipway_sandbox.cluster.resources import KubeObject

_CONTAINER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ENVIRONMENT_NAME = re.compile(r"[\x20-\x3c\x3e-\x7e]+")
_QUANTITY = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][-+]?\d+|m|u|n|k|Ki|Mi|M|Gi|G|Ti|T|Pi|P|Ei|E)?")
_MULTIPLIERS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}
_MULTIPLIERS |= {unit: 1000.0**power for power, unit in enumerate("MGTPE", start=2)}
_MULTIPLIERS |= {f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", start=1)}


def with_pod_defaults(pod: KubeObject) -> KubeObject:
    """Return a copy of `pod` in which what was left out has the value that Kubernetes gives it."""
    pod = deepcopy(pod)
    spec = pod["spec"]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("schedulerName", "default-scheduler")
    for container in spec["containers"]:
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("resources", {})
    return pod


def pod_problems(pod: KubeObject) -> list[FieldError]:
    """Return everything wrong with a new pod, beyond the types of its fields."""
    spec = pod["spec"]
    problems = [problem for i, c in enumerate(spec["containers"]) for problem in _container_problems(c, i)]
    names = [container["name"] for container in spec["containers"]]
    for i, name in enumerate(names):
        if name in names[:i]:
            problems.append(FieldError(f"spec.containers[{i}].name", INVALID, f'Duplicate value: "{name}"'))
    if spec["restartPolicy"] != "Never":
        detail = f'"{spec["restartPolicy"]}": supported values: "Never" (the emulator runs a pod once)'
        problems.append(FieldError("spec.restartPolicy", UNSUPPORTED, detail))
    for part in ("initContainers", "ephemeralContainers"):
        if spec.get(part):
            problems.append(
                FieldError(f"spec.{part}", FORBIDDEN, "the emulator runs ordinary containers only")
            )
    return problems


def _container_problems(container: dict[str, Any], index: int) -> list[FieldError]:
    path = f"spec.containers[{index}]"
    problems = []
    if not _CONTAINER_NAME.fullmatch(container["name"]):
        detail = f'"{container["name"]}": must be a lowercase RFC 1123 label'
        problems.append(FieldError(f"{path}.name", INVALID, detail))
    if not container.get("image"):
        problems.append(FieldError(f"{path}.image", REQUIRED))
    for i, variable in enumerate(container.get("env", [])):
        if not _ENVIRONMENT_NAME.fullmatch(variable["name"]):
            detail = f"\"{variable['name']}\": must be printable ASCII without '='"
            problems.append(FieldError(f"{path}.env[{i}].name", INVALID, detail))
    for part in ("requests", "limits"):
        for resource, quantity in container["resources"].get(part, {}).items():
            if not _QUANTITY.fullmatch(str(quantity)):
                detail = f"{quantity!r}: quantities must match the regular expression {_QUANTITY.pattern!r}"
                problems.append(FieldError(f"{path}.resources.{part}[{resource}]", INVALID, detail))
    return problems


def pod_update_problems(before: KubeObject, pod: KubeObject) -> list[FieldError]:
    """Return everything wrong with a change to a pod: its metadata may change, what it runs may not."""
    if before["spec"] == pod["spec"]:
        return []
    changed = sorted(
        key for key in {*before["spec"], *pod["spec"]} if before["spec"].get(key) != pod["spec"].get(key)
    )
    detail = f"pod updates may not change fields of the spec in the emulator; changed: {', '.join(changed)}"
    return [FieldError("spec", FORBIDDEN, detail)]


def quantity_value(quantity: object) -> float:
    """Return a Kubernetes quantity as a number: `"1500m"` → 1.5, `"2Gi"` → 2147483648.0. Raises ValueError."""
    found = _QUANTITY.fullmatch(str(quantity))
    if not found:
        raise ValueError(
            f"{quantity!r} is not a Kubernetes quantity. Expected one like '2', '500m' or '4Gi'."
        )
    number, suffix = float(found[1]), found[2] or ""
    if suffix in _MULTIPLIERS:
        return number * _MULTIPLIERS[suffix]
    return float(f"{found[1]}{suffix}")
