"""What KServe's ConfigMap says: its version, what it does with annotations, whether weights lead anybody anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.rollout import fields

CONFIG_MAP = ("kserve", "inferenceservice-config")
DISALLOWED = (
    fields.RELEASE,
    fields.VERSION,
    fields.CANDIDATE_URI,
    fields.STABLE_URI,
    fields.STABLE_VERSION,
    fields.STABLE_REVISION,
    fields.REPLACED_REVISION,
    fields.ROLLED_BACK_URI,
    fields.TRANSFORMER,
    fields.PREVIEW_GENERATION,
)
"""The notes that KServe must not copy into a revision's template."""
TRIED = (0, 20)
"""The release of KServe that the conformance lane runs."""
_EDIT = f"kubectl -n {CONFIG_MAP[0]} edit configmap {CONFIG_MAP[1]}"
_TAG = re.compile(r":v?([0-9]+)\.([0-9]+)(?:\.[0-9]+)?")


def config_findings(data: Mapping[str, str] | None, modes: frozenset[str]) -> Iterator[Finding]:
    """Yield what the ConfigMap `inferenceservice-config` says.

    :param data: its data; None: it cannot be seen.
    :param modes: the deployment modes of the release files.
    """
    if data is None:
        yield Finding(
            "inferenceservice-config",
            Status.UNKNOWN,
            "it cannot be seen",
            "the right to get this one ConfigMap",
            "version, gateway and disallowed annotations are told by it alone",
            f"kubectl -n {CONFIG_MAP[0]} create role slipway-config --verb=get --resource=configmaps "
            f"--resource-name={CONFIG_MAP[1]}",
        )
        return
    yield _version(data)
    if "Standard" in modes:
        yield from _gateway_api(data)
    if "Knative" in modes:
        yield _disallowed(data)


def mode_finding(data: Mapping[str, str] | None, modes: frozenset[str]) -> Finding:
    """Return how the modes of the release files go with KServe's default; each release file names its own."""
    default = str(_part(data or {}, "deploy").get("defaultDeploymentMode") or "")
    named = fields.deployment_mode({"status": {"deploymentMode": default}})
    wanted = " and ".join(sorted(modes)) or "none"
    shown = named or "not told"
    return fine("deployment mode", f"release files ask for {wanted}; KServe's default is {shown}")


def _version(data: Mapping[str, str]) -> Finding:
    image = str(_part(data, "storageInitializer").get("image") or "")
    match = _TAG.search(image)
    if match is None:
        return Finding(
            "version",
            Status.UNKNOWN,
            f"the storage initializer's image says none: {image or 'none is named'}",
            f"{TRIED[0]}.{TRIED[1]}",
            remedy="kubectl -n kserve get deployment kserve-controller-manager -o "
            "jsonpath='{..containers[*].image}'",
        )
    found = (int(match[1]), int(match[2]))
    if found >= TRIED:
        return fine("version", f"{found[0]}.{found[1]}, by its storage initializer's image")
    return Finding(
        "version",
        Status.WARNING,
        f"{found[0]}.{found[1]}, by its storage initializer's image",
        f"{TRIED[0]}.{TRIED[1]} or later",
        "no earlier release was tried",
        "upgrade KServe",
    )


def _gateway_api(data: Mapping[str, str]) -> Iterator[Finding]:
    ingress = _part(data, "ingress")
    is_on = ingress.get("enableGatewayApi") is True and ingress.get("disableIngressCreation") is not True
    if is_on:
        yield fine("Gateway API", "KServe makes HTTPRoutes")
        return
    yield Finding(
        "Gateway API",
        Status.FAILED,
        f"enableGatewayApi is {json.dumps(ingress.get('enableGatewayApi'))}, disableIngressCreation is "
        f"{json.dumps(ingress.get('disableIngressCreation'))}",
        "enableGatewayApi: true, and KServe makes routes",
        "in Standard mode a canary's weight leads nobody anywhere without it",
        _EDIT,
    )


def _disallowed(data: Mapping[str, str]) -> Finding:
    what = "disallowed annotations"
    found = _part(data, "inferenceService").get("serviceAnnotationDisallowedList")
    listed = {str(one) for one in found} if isinstance(found, list) else set()
    missing = [name for name in DISALLOWED if name not in listed]
    if not missing:
        return fine(what, f"all {len(DISALLOWED)} notes of Slipway are listed")
    return Finding(
        what,
        Status.WARNING,
        f"{len(missing)} of {len(DISALLOWED)} are not listed: {', '.join(missing)}",
        "serviceAnnotationDisallowedList with each",
        "KServe copies the others into the revision's template: who edits one makes a new revision",
        _EDIT,
    )


def _part(data: Mapping[str, str], key: str) -> Mapping[str, Any]:
    """Return one JSON part of the ConfigMap; what cannot be read is empty."""
    try:
        return fields.mapping(json.loads(data.get(key, "{}")))
    except (ValueError, RecursionError):
        return {}
