"""include/manifests/guard: what a cluster is given fits Kubernetes' own types, and the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient

from slipway_guard import __main__ as program
from slipway_sandbox.cluster.admission.schemas import POD_SPEC
from slipway_sandbox.cluster.admission.structure import Findings, pruned
from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "guard"
FILES = [path for path in sorted(FOLDER.glob("*.yaml")) if path.name != "kustomization.yaml"]
MODELS = {
    "ServiceAccount": "V1ServiceAccount",
    "Role": "V1Role",
    "RoleBinding": "V1RoleBinding",
    "Deployment": "V1Deployment",
    "CronJob": "V1CronJob",
}


def documents(path: Path) -> list[dict[str, Any]]:
    """Every object of a file."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def workload(name: str) -> dict[str, Any]:
    """The pod's spec in the Deployment or the CronJob."""
    (found,) = documents(FOLDER / f"{name}.yaml")
    spec = found["spec"] if name == "deployment" else found["spec"]["jobTemplate"]["spec"]
    return dict(spec["template"]["spec"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_field_is_known_to_the_official_client(path: Path) -> None:
    """Read into the client's models and written again, each object is the same: no misspelt field is lost."""
    api = ApiClient()
    for document in documents(path):
        answer = SimpleNamespace(data=json.dumps(document))
        model = api.deserialize(answer, MODELS[document["kind"]])
        assert api.sanitize_for_serialization(model) == document


@pytest.mark.parametrize("name", ["deployment", "cronjob"])
def test_the_pods_are_valid(name: str) -> None:
    """The pod's spec has no field, type or value that Kubernetes would refuse."""
    findings = Findings()
    pruned(workload(name), POD_SPEC, "spec", findings)
    assert findings == Findings()


@pytest.mark.parametrize("name", ["deployment", "cronjob"])
def test_the_program_understands_its_arguments(name: str) -> None:
    """What the manifests pass to the program is what it takes, and keeps to the namespace of its Role."""
    (container,) = workload(name)["containers"]
    options = program._parser().parse_args(container["args"])
    assert options.namespace == ["models"]
    assert options.once == (name == "cronjob")


def test_the_probe_reads_the_file_that_the_program_touches() -> None:
    """The liveness probe, the argument and the one writable folder are about one file."""
    (container,) = workload("deployment")["containers"]
    alive = program._parser().parse_args(container["args"]).alive_file
    assert str(alive) in container["livenessProbe"]["exec"]["command"][-1]
    assert str(alive.parent) == container["volumeMounts"][0]["mountPath"]


@pytest.mark.parametrize("name", ["deployment", "cronjob"])
def test_the_pods_have_no_more_power_than_they_need(name: str) -> None:
    """No root, no writable file system, no capability, and the account that the Role is bound to."""
    spec = workload(name)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    account, role, binding = documents(FOLDER / "rbac.yaml")
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [one["name"] for one in binding["subjects"]] == [account["metadata"]["name"]]


def test_no_rule_is_a_wildcard() -> None:
    """Every group, resource and verb is named."""
    (role,) = [one for one in documents(FOLDER / "rbac.yaml") if one["kind"] == "Role"]
    assert "*" not in json.dumps(role)


def test_the_image_is_the_one_that_its_folder_builds() -> None:
    """The Dockerfile copies what the program is made of and runs it as the user that the manifests name."""
    dockerfile = (PROJECT_ROOT / "include/images/guard/Dockerfile").read_text(encoding="utf-8")
    for source in re.findall(r"^COPY (\S+) ", dockerfile, re.MULTILINE):
        assert (PROJECT_ROOT / "include" / source).exists(), source
    (tag,) = re.findall(r"-t (\S+) include", dockerfile)
    for name in ("deployment", "cronjob"):
        spec = workload(name)
        assert spec["containers"][0]["image"] == f"registry.example.com/{tag}"
        assert f"USER {spec['securityContext']['runAsUser']}:" in dockerfile
