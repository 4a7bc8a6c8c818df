"""include/manifests/network: a policy for each kind of pod, found by the labels that the pods really carry."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient

from slipway.operators.benchmark import BenchmarkModelOperator
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.mirror_comparison import RunMirrorComparisonOperator
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.operators.staging import StagedModel, Staging
from slipway.operators.validate import ValidateModelOperator
from slipway.pods.manifest import labels_of
from slipway.release_run import ReleaseRun
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.settings import PROJECT_ROOT

MANIFESTS = PROJECT_ROOT / "include" / "manifests"
POLICIES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((MANIFESTS / "network").glob("*.yaml"))
    if path.name != "kustomization.yaml"
}
RELEASE_RUN = ReleaseRun(
    release_id="manual__1",
    model="ranker",
    version=3,
    bucket="models",
    spec=parse_release_spec(
        "model: ranker\nsource: {}\nrollout: {preview: {}, mirror_comparison: {}}\n"
        "validation: {kind: custom, output: y, scorer: scorer.py, figures: {good: {min: 0}}}\n",
        "ranker.yaml",
    ),
    stable=None,
)
STAGING = Staging(
    candidate=StagedModel(name="ranker", version=3, config={}), baseline=None, manifest_sha256="ab"
)
OPERATORS: list[ReleasePodOperator] = [
    ConvertModelOperator(task_id="convert", variant="half"),
    RunSmokeTestOperator(task_id="smoke_test"),
    BenchmarkModelOperator(
        task_id="benchmark", staging=STAGING.model_dump_json(), release=RELEASE_RUN.model_dump_json()
    ),
    RunMirrorComparisonOperator(task_id="run_mirror_comparison"),
    ValidateModelOperator(
        task_id="validate", staging=STAGING.model_dump_json(), release=RELEASE_RUN.model_dump_json()
    ),
]
METADATA_SERVICE = ip_address("169.254.169.254")


def guard_labels(name: str) -> dict[str, str]:
    document = yaml.safe_load((MANIFESTS / "guard" / f"{name}.yaml").read_text(encoding="utf-8"))
    spec = document["spec"] if name == "deployment" else document["spec"]["jobTemplate"]["spec"]
    return dict(spec["template"]["metadata"]["labels"])


def selecting(labels: dict[str, str]) -> list[str]:
    """The policies that hold for a pod with these labels."""
    wanted = {name: one["spec"]["podSelector"]["matchLabels"] for name, one in POLICIES.items()}
    return [name for name, selector in wanted.items() if selector.items() <= labels.items()]


def blocks(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        to["ipBlock"] for rule in policy["spec"]["egress"] for to in rule["to"] if "ipBlock" in to
    ]  # fmt: skip


def test_every_kind_of_pod_that_a_release_starts_is_known_here() -> None:
    """A new operator with a pod of its own must come with a policy: it fails this test first."""
    assert {type(one) for one in OPERATORS} == set(ReleasePodOperator.__subclasses__())


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: str(one.task_id))
def test_each_kind_of_pod_has_one_policy_by_the_labels_that_its_operator_sets(
    operator: ReleasePodOperator,
) -> None:
    """The policy of a pod's stage, and no other, selects it; a variant of the conversion is a conversion."""
    pod = operator.describe(RELEASE_RUN)
    assert selecting(labels_of(pod, RELEASE_RUN)) == [pod.kind]


@pytest.mark.parametrize("name", ["deployment", "cronjob"])
def test_the_guard_has_one_however_it_is_run(name: str) -> None:
    """Deployment and CronJob are found by the same policy, in the namespace that they are in."""
    assert selecting(guard_labels(name)) == ["guard"]


@pytest.mark.parametrize("name", POLICIES)
def test_every_field_is_known_to_the_official_client(name: str) -> None:
    """Read into the client's models and written again it is the same: no misspelt field is lost."""
    api, policy = ApiClient(), POLICIES[name]
    model = api.deserialize(SimpleNamespace(data=json.dumps(policy)), "V1NetworkPolicy")
    written = api.sanitize_for_serialization(model)
    written["spec"].setdefault("ingress", [])
    assert written == policy
    assert policy["apiVersion"] == "networking.k8s.io/v1"


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_closes_both_ways_and_opens_no_rule_to_everything(name: str) -> None:
    """Both directions are named, and each rule says to whom and at which ports: an empty one would allow all."""
    spec = POLICIES[name]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    for way, rules in (("from", spec["ingress"]), ("to", spec["egress"])):
        for rule in rules:
            assert rule[way]
            assert all(rule[way])
            assert rule["ports"]


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"mirror", "staging"}))
def test_nobody_reaches_a_pod_that_serves_nobody(name: str) -> None:
    """Only the comparer and the staging Triton listen."""
    assert POLICIES[name]["spec"]["ingress"] == []


@pytest.mark.parametrize("name", POLICIES)
def test_no_pod_reaches_the_nodes_credentials(name: str) -> None:
    """The instance metadata service is in no block of addresses."""
    for block in blocks(POLICIES[name]):
        closed = any(METADATA_SERVICE in ip_network(one) for one in block.get("except", ()))
        assert closed or METADATA_SERVICE not in ip_network(block["cidr"])


def test_the_comparers_ports_are_the_pods_by_their_names() -> None:
    """A connection that moves the ports moves what the policy opens."""
    (rule,) = POLICIES["mirror"]["spec"]["ingress"]
    service = yaml.safe_load((MANIFESTS / "mirror-comparison" / "service.yaml").read_text(encoding="utf-8"))
    assert {one["port"] for one in rule["ports"]} == {one["targetPort"] for one in service["spec"]["ports"]}


def test_the_policies_lie_where_the_pods_run() -> None:
    """All of them are in the namespace of the guard and of the mirror's Service."""
    assert {one["metadata"]["namespace"] for one in POLICIES.values()} == {"models"}
