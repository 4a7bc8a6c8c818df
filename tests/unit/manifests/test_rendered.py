"""include/manifests as it is rendered from the chart: it is current, whole, and fits the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from airflow_provider_triton.client.settings import GRPC_PORT as TRITON_GRPC_PORT
from airflow_provider_triton.client.settings import HTTP_PORT as TRITON_HTTP_PORT
from slipway_core.rollout.servers.protocol import GRPC_PORT
from slipway_core.spec.rollout.rollout import Rollout
from tests.support.chart.files import chart_digest
from tests.support.chart.manifests import (
    BASE,
    KUSTOMIZATION,
    MANIFESTS,
    files_digest,
    files_there,
    recorded_digests,
)
from tests.support.conformance.rights import documented_rules

KEEP = {"helm.sh/resource-policy": "keep"}


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return [one for one in yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")) if one]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Return every object of a kind, of all files."""
    paths: list[Path] = sorted(MANIFESTS.rglob("*.yaml"))
    return [one for path in paths for one in documents(str(path)) if one.get("kind") == kind]


def flags(container: dict[str, Any]) -> dict[str, str]:
    """Return what a Triton is started with, by flag."""
    program, *rest = container["args"]
    assert program == "tritonserver"
    return dict(one.removeprefix("--").partition("=")[::2] for one in rest)


def test_it_is_rendered_from_the_chart_as_it_stands() -> None:
    """After a change of the chart, `make manifests` renders it; a change by hand is noticed, too."""
    assert recorded_digests() == (chart_digest(), files_digest(files_there()))


def test_every_file_that_is_rendered_is_in_its_folders_kustomization() -> None:
    """Nothing is left out but the guard as a CronJob, which stands for its Deployment."""
    for path in sorted(MANIFESTS.glob(f"*/{KUSTOMIZATION}")):
        head = path.read_text(encoding="utf-8").splitlines()[0]
        rendered = {
            one.name
            for one in path.parent.glob("*.yaml")
            if one != path and one.read_text(encoding="utf-8").startswith(head)
        }
        assert set(documents(str(path))[0]["resources"]) == rendered - {"cronjob.yaml"}, path
    assert documents(KUSTOMIZATION)[0]["resources"] == [*BASE]


def test_airflow_gets_the_rights_of_the_page_and_no_others() -> None:
    """docs/cluster.md, section 5, is what the Roles say, rule by rule, in each kind of namespace."""
    (pods,) = [one for one in documents("airflow/rights.yaml") if one["metadata"]["name"] == "slipway-pods"
               and one["kind"] == "Role"]  # fmt: skip
    (rollouts,) = [one for one in documents("airflow/rights.yaml")
                   if one["metadata"]["name"] == "slipway-rollouts" and one["kind"] == "Role"]  # fmt: skip
    preflight = {
        one["metadata"]["namespace"]: one["rules"]
        for one in documents("airflow/preflight-rights.yaml")
        if one["kind"] == "Role"
    }
    assert by_resource(pods["rules"]) == by_resource(documented_rules("that of the pods"))
    assert by_resource(rollouts["rules"]) == by_resource(documented_rules("rollout.namespace"))
    assert preflight == {name: documented_rules(f"`{name}`") for name in ("kserve", "knative-serving")}


def by_resource(rules: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """Return the verbs of rules by group and resource; each is in one rule."""
    found: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        (group,), (resource,) = rule["apiGroups"], rule["resources"]
        assert (group, resource) not in found
        found[group, resource] = set(rule["verbs"])
    return found


def test_no_role_has_a_wildcard_and_every_binding_its_role() -> None:
    """Every group, resource and verb is named; no right holds in the whole cluster."""
    roles = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in of_kind("Role")}
    assert not [one for one in roles.values() if "*" in str(one["rules"])]
    bound = {(one["metadata"]["namespace"], one["roleRef"]["name"]) for one in of_kind("RoleBinding")}
    assert bound == roles.keys()
    assert of_kind("ClusterRole") == of_kind("ClusterRoleBinding") == []


def test_staging_is_what_slipway_and_the_benchmark_expect() -> None:
    """Explicit mode, the connection's ports, the label that the policy of benchmarks opens, one server at a time."""
    (deployment,) = documents("staging/deployment.yaml")
    (service,) = documents("staging/service.yaml")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    given = flags(container)
    assert (given["model-control-mode"], given["strict-readiness"]) == ("explicit", "false")
    assert given["model-repository"] == "s3://example-bucket/staging"
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"http": TRITON_HTTP_PORT, "grpc": TRITON_GRPC_PORT, "metrics": 8002}
    assert ports == {name: int(given[f"{name}-port"]) for name in ports}
    assert {one["name"]: one["port"] for one in service["spec"]["ports"]} == ports
    labels = pod["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (benchmark,) = documents("network/benchmark.yaml")
    opened = [to["podSelector"]["matchLabels"] for rule in benchmark["spec"]["egress"] for to in rule["to"]
              if "podSelector" in to]  # fmt: skip
    assert any(one.items() <= labels.items() and "k8s-app" not in one for one in opened)
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (budget,) = documents("staging/disruption-budget.yaml")
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_runtime_is_what_a_release_asks_for() -> None:
    """It speaks both protocols, at the ports that KServe and `protocol: grpc` lead to, and names none of them."""
    (runtime,) = documents("serving/runtimes.yaml")
    (container,) = runtime["spec"]["containers"]
    given = flags(container)
    assert container["name"] == "kserve-container"
    assert "ports" not in container
    assert (given["http-port"], given["grpc-port"]) == ("8080", str(GRPC_PORT))
    assert given["metrics-port"] == runtime["spec"]["annotations"]["prometheus.kserve.io/port"]
    assert given["model-repository"] == "/mnt/models"
    assert set(runtime["spec"]["protocolVersions"]) == {"v2", "grpc-v2"}
    # Nobody's server changes when it is installed: only who names it gets it.
    assert [one["autoSelect"] for one in runtime["spec"]["supportedModelFormats"]] == [False]
    assert runtime["metadata"]["name"] != Rollout().runtime


def test_staging_and_the_servers_of_users_have_the_same_flags() -> None:
    """A benchmark measures the server that users get, but for ports and repository."""
    (staging,) = documents("staging/deployment.yaml")[0]["spec"]["template"]["spec"]["containers"]
    (serving,) = documents("serving/runtimes.yaml")[0]["spec"]["containers"]
    of_place = {
        "http-port",
        "grpc-port",
        "metrics-port",
        "model-repository",
        "model-control-mode",
        "strict-readiness",
    }
    same = [
        {name: value for name, value in flags(one).items() if name not in of_place}
        for one in (staging, serving)
    ]
    assert same[0] == same[1]
    assert staging["image"] == serving["image"]


def test_no_probe_ends_a_server_that_still_loads() -> None:
    """Each Triton has as long as the values say to load and warm up, before liveness counts."""
    (staging,) = documents("staging/deployment.yaml")[0]["spec"]["template"]["spec"]["containers"]
    (serving,) = documents("serving/runtimes.yaml")[0]["spec"]["containers"]
    for container in (staging, serving):
        probe = container["startupProbe"]
        assert probe["httpGet"]["path"] == "/v2/health/ready"
        assert probe["periodSeconds"] * probe["failureThreshold"] == 1800
        assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"


def test_what_live_traffic_needs_is_kept_on_uninstall_and_nothing_else() -> None:
    """Runtimes, the storage initializer and the predictors' account stay; rights and the guard go."""
    every = [
        one
        for path in MANIFESTS.rglob("*.yaml")
        for one in documents(str(path))
        if "metadata" in one and KEEP.items() <= one["metadata"].get("annotations", {}).items()
    ]
    assert {(one["kind"], one["metadata"]["name"]) for one in every} == {
        ("ServingRuntime", "slipway-triton"),
        ("ClusterStorageContainer", "slipway-verify"),
        ("ServiceAccount", Rollout().service_account),
    }
