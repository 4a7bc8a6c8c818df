"""What values of the chart change in the objects, as the real Helm renders them; no cluster is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chart.files import CHART
from tests.support.chart.helm import Helm, objects

ROLE_ARN = "eks.amazonaws.com/role-arn"
SMALLEST, TEAMS = (CHART / "ci" / f"{name}-values.yaml" for name in ("smallest", "teams"))
Rendered = dict[tuple[str, str, str], dict[str, Any]]


def rendered(*arguments: str) -> Rendered:
    """Return every object by kind, namespace and name; none is there twice."""
    found: Rendered = {}
    for one in objects(Helm().template(*arguments, namespace="slipway")):
        metadata = one["metadata"]
        key = one["kind"], metadata.get("namespace", ""), metadata["name"]
        assert key not in found
        found[key] = one
    return found


def containers(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the containers of an object, however deep."""
    for name, value in one.items():
        if name in ("containers", "initContainers"):
            yield from value
        elif name == "container":
            yield value
        elif isinstance(value, dict):
            yield from containers(value)


@pytest.fixture(scope="module")
def teams() -> Rendered:
    """Two teams, with nearly everything that can be set."""
    return rendered("--values", str(TEAMS))


@pytest.fixture(scope="module")
def smallest() -> Rendered:
    """The defaults."""
    return rendered("--values", str(SMALLEST))


def test_each_team_has_accounts_of_its_own_with_its_own_roles(teams: Rendered) -> None:
    """A team's annotations replace the common ones, for that account alone."""
    arns = {
        (namespace, name): one["metadata"].get("annotations", {}).get(ROLE_ARN)
        for (kind, namespace, name), one in teams.items()
        if kind == "ServiceAccount"
    }
    role = "arn:aws:iam::111122223333:role"
    assert arns == {
        ("vision-releases", "slipway"): f"{role}/vision-pods",
        ("vision-models", "slipway-models"): f"{role}/vision-models",
        ("text-releases", "slipway"): f"{role}/slipway-pods",
        ("text-models", "slipway-models"): None,
        ("slipway", "triton-staging"): f"{role}/slipway-staging",
        ("slipway", "slipway-guard"): None,
    }


def test_the_guard_watches_the_models_of_every_team(teams: Rendered) -> None:
    """One guard, with rights in each namespace of models and in no other."""
    guard = teams["CronJob", "slipway", "slipway-guard"]
    (container,) = containers(guard)
    assert {"--namespace=vision-models", "--namespace=text-models"} <= set(container["args"])
    roles = {namespace for kind, namespace, name in teams if (kind, name) == ("Role", "slipway-guard")}
    assert roles == {"vision-models", "text-models"}
    assert ("Deployment", "slipway", "slipway-guard") not in teams


def test_rights_of_the_other_mode_are_left_out(teams: Rendered, smallest: Rendered) -> None:
    """With Standard mode alone nobody may touch Knative's objects; by default both modes are served."""

    def groups(found: Rendered) -> set[str]:
        roles = [one for (kind, _, _), one in found.items() if kind == "Role"]
        return {group for role in roles for rule in role["rules"] for group in rule["apiGroups"]}

    assert "serving.knative.dev" not in groups(teams)
    assert {"serving.knative.dev", "gateway.networking.k8s.io"} <= groups(smallest)
    assert not [namespace for _, namespace, _ in teams if namespace == "knative-serving"]


def test_every_image_comes_from_the_one_registry(teams: Rendered) -> None:
    """By digest where one is given, and each pod may use the pull secret."""
    registry = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/"
    for (kind, _, _), one in teams.items():
        for container in containers(one):
            assert container["image"].startswith(registry), kind
    (guard,) = containers(teams["CronJob", "slipway", "slipway-guard"])
    assert guard["image"] == f"{registry}slipway/guard@sha256:{'b' * 64}"
    pods = (
        teams["CronJob", "slipway", "slipway-guard"]["spec"]["jobTemplate"]["spec"],
        teams["Deployment", "slipway", "triton-staging"]["spec"],
    )
    specs = [one["template"]["spec"] for one in pods]
    specs += [one for (kind, _, _), one in teams.items() if kind == "ServiceAccount"]
    specs += [one["spec"] for (kind, _, _), one in teams.items() if kind == "ServingRuntime"]
    assert all(one["imagePullSecrets"] == [{"name": "registry"}] for one in specs)


def test_the_proxy_is_for_pods_that_read_the_object_store(teams: Rendered) -> None:
    """Staging and the storage initializer have it; the guard, which talks to the API alone, does not."""

    def proxies(one: dict[str, Any]) -> set[str]:
        return {
            each["name"] for box in containers(one) for each in box.get("env", ()) if "PROXY" in each["name"]
        }

    assert proxies(teams["Deployment", "slipway", "triton-staging"]) == {"HTTPS_PROXY", "NO_PROXY"}
    assert proxies(teams["ClusterStorageContainer", "", "slipway-verify"]) == {"HTTPS_PROXY", "NO_PROXY"}
    assert proxies(teams["CronJob", "slipway", "slipway-guard"]) == set()


def test_labels_for_a_mesh_reach_the_charts_pods_and_not_those_of_users_servers(teams: Rendered) -> None:
    """A mesh that is turned off for the guard stays on for the predictors, which have labels of their own."""
    label = {"sidecar.istio.io/inject": "false"}
    guard = teams["CronJob", "slipway", "slipway-guard"]["spec"]["jobTemplate"]["spec"]["template"][
        "metadata"
    ]
    staging = teams["Deployment", "slipway", "triton-staging"]["spec"]["template"]["metadata"]
    for metadata in (guard, staging):
        assert label.items() <= metadata["labels"].items()
        assert metadata["annotations"] == {"example.com/owner": "platform"}
    runtimes = [one for (kind, _, _), one in teams.items() if kind == "ServingRuntime"]
    assert [one["spec"]["labels"] for one in runtimes] == [{"example.com/tier": "serving"}] * len(runtimes)


def test_a_further_runtime_stands_beside_the_first_in_each_namespace_of_models(teams: Rendered) -> None:
    """With an image of its own or the common one."""
    found = {
        (namespace, name): next(containers(one))["image"].rpartition("/")[2]
        for (kind, namespace, name), one in teams.items()
        if kind == "ServingRuntime"
    }
    common = f"tritonserver@sha256:{'a' * 64}"
    assert found == {
        (namespace, name): image
        for namespace in ("vision-models", "text-models")
        for name, image in (
            ("slipway-triton-26-06", "tritonserver:26.06-py3"),
            ("slipway-triton-26-07", common),
        )
    }


def test_policies_open_what_the_values_name_and_nothing_of_the_defaults(teams: Rendered) -> None:
    """The endpoint's subnet instead of the internet, the agent of Pod Identity, the proxy."""
    for stage in ("convert", "smoke-test", "score"):
        policy = teams["NetworkPolicy", "text-releases", f"slipway-{stage}"]
        cidrs = [
            to["ipBlock"]["cidr"] for rule in policy["spec"]["egress"] for to in rule["to"] if "ipBlock" in to
        ]
        assert cidrs == ["10.20.0.0/24", "169.254.170.23/32", "10.40.0.5/32"]
    clients = teams["NetworkPolicy", "slipway", "triton-staging"]["spec"]["ingress"][0]["from"]
    assert {"ipBlock": {"cidr": "10.30.0.0/16"}} in clients
    assert sum("podSelector" in one for one in clients) == 2


def test_what_is_off_by_default_leaves_no_object(smallest: Rendered) -> None:
    """No quota, no rules for a Prometheus that may not be there, and no storage initializer beside KServe's."""
    kinds = {kind for kind, _, _ in smallest}
    off = {
        "ClusterStorageContainer",
        "PodMonitor",
        "PrometheusRule",
        "ScrapeConfig",
        "LimitRange",
        "ResourceQuota",
    }
    assert not kinds & (off | {"Namespace", "Secret", "ClusterRole", "ClusterRoleBinding"})


@pytest.mark.parametrize("part", ["airflow", "guard", "staging", "network"])
def test_each_part_can_be_turned_off(smallest: Rendered, part: str) -> None:
    """Nothing of it is left, and nothing else changes."""
    without = rendered("--values", str(SMALLEST), "--set", f"{part}.enabled=false")
    assert without.keys() < smallest.keys()
    gone = {(kind, name) for kind, _, name in smallest.keys() - without.keys()}
    of_part = {
        "airflow": {"slipway-pods", "slipway-rollouts", "slipway-preflight"},
        "guard": {"slipway-guard"},
        "staging": {"triton-staging"},
        "network": {name for kind, _, name in smallest if kind == "NetworkPolicy"},
    }
    assert {name for _, name in gone} == of_part[part]
    assert all(without[key] == smallest[key] for key in without)
