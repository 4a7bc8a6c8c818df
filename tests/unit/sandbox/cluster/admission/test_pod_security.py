"""The restricted Pod Security Standard, as Kubernetes' own admission plugin words it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway_sandbox.cluster.admission.pod_security import violations
from slipway_sandbox.host.settings import PROJECT_ROOT

GOOD: dict[str, Any] = {
    "metadata": {"name": "x"},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "base",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    },
}


def told(pod: dict[str, Any]) -> list[str]:
    return [str(one) for one in violations(pod)]


def changed(part: str, **fields: Any) -> dict[str, Any]:
    """The good pod with some fields of the spec, the pod's or the container's security context set otherwise."""
    pod = deepcopy(GOOD)
    spec = pod["spec"]
    (container,) = spec["containers"]
    places = {
        "spec": spec,
        "pod": spec["securityContext"],
        "container": container,
        "context": container["securityContext"],
    }
    places[part].update(fields)
    return pod


def test_a_restricted_pod_is_admitted() -> None:
    """Nothing is said of a pod that keeps to the standard."""
    assert violations(GOOD) == []


def test_a_pod_that_says_nothing_of_security_is_told_all_that_is_missing() -> None:
    """The four demands of the restricted level, word for word as the API server gives them."""
    assert told({"metadata": {}, "spec": {"containers": [{"name": "base"}]}}) == [
        'allowPrivilegeEscalation != false (container "base" must set '
        "securityContext.allowPrivilegeEscalation=false)",
        'unrestricted capabilities (container "base" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "base" must set securityContext.runAsNonRoot=true)',
        'seccompProfile (pod or container "base" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
    ]


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (changed("spec", hostPID=True, hostNetwork=True), "host namespaces (hostNetwork=true, hostPID=true)"),
        (changed("spec", hostIPC=True), "host namespaces (hostIPC=true)"),
        (
            changed("container", ports=[{"containerPort": 80, "hostPort": 8080}]),
            'hostPort (container "base" uses hostPort 8080)',
        ),
        (
            changed("container", livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 80}}),
            'probe or lifecycle host (container "base" uses probe or lifecycle host "10.0.0.1")',
        ),
        (
            changed("context", privileged=True),
            'privileged (container "base" must not set securityContext.privileged=true)',
        ),
        (
            changed("context", procMount="Unmasked"),
            'procMount (container "base" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            changed("pod", seLinuxOptions={"type": "spc_t"}),
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t")',
        ),
        (
            changed("pod", sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            changed("pod", windowsOptions={"hostProcess": True}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            changed("context", appArmorProfile={"type": "Unconfined"}),
            'forbidden AppArmor profile (container "base" must not set AppArmor profile type to "Unconfined")',
        ),
        (
            changed("context", capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN", "NET_BIND_SERVICE"]}),
            'unrestricted capabilities (container "base" must not include "SYS_ADMIN" in '
            "securityContext.capabilities.add)",
        ),
        (
            changed("context", capabilities={"drop": ["NET_RAW"]}),
            'unrestricted capabilities (container "base" must set securityContext.capabilities.drop=["ALL"])',
        ),
        (
            changed("spec", volumes=[{"name": "root", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {}}]),
            'restricted volume types (volumes ["n" "root"] have restricted types)',
        ),
        (
            changed("context", runAsNonRoot=False),
            'runAsNonRoot != true (container "base" must not set securityContext.runAsNonRoot=false)',
        ),
        (changed("pod", runAsUser=0), "runAsUser=0 (pod must not set runAsUser=0)"),
        (
            changed("context", seccompProfile={"type": "Unconfined"}),
            'seccompProfile (container "base" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
    ],
)
def test_each_lapse_is_named(pod: dict[str, Any], words: str) -> None:
    """One thing that the standard forbids is one violation, in the admission plugin's words."""
    assert told(pod) == [words]


def test_init_containers_are_looked_at_too() -> None:
    """A container that runs before the others is held to the same."""
    (found,) = told(changed("spec", initContainers=[{"name": "first", "securityContext": {
        "capabilities": {"drop": ["ALL"]},
    }}]))  # fmt: skip
    assert found == (
        'allowPrivilegeEscalation != false (container "first" must set '
        "securityContext.allowPrivilegeEscalation=false)"
    )


def pod_templates() -> list[tuple[str, dict[str, Any]]]:
    """Every pod template in include/manifests, with the file that holds it."""

    def within(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, list):
            return [found for one in value for found in within(one)]
        if not isinstance(value, dict):
            return []
        template = value.get("template")
        if isinstance(template, dict) and "containers" in template.get("spec", {}):
            return [template]
        return [found for one in value.values() for found in within(one)]

    folder: Path = PROJECT_ROOT / "include" / "manifests"
    return [
        (str(path.relative_to(folder)), template)
        for path in sorted(folder.rglob("*.yaml"))
        for template in within(list(yaml.safe_load_all(path.read_text(encoding="utf-8"))))
    ]


@pytest.mark.parametrize(("path", "template"), pod_templates())
def test_every_manifest_that_runs_pods_keeps_to_the_standard(path: str, template: dict[str, Any]) -> None:
    """What a cluster is given runs in a namespace that enforces the restricted standard."""
    assert told(template) == [], path


def test_the_guards_manifests_are_among_those_checked() -> None:
    """Both ways to run the guard are held to the standard."""
    assert {"guard/cronjob.yaml", "guard/deployment.yaml"} <= {path for path, _ in pod_templates()}
