"""What `make cluster-demo` changes and writes before anything of a cluster runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_core.spec.release_file import load_release_spec
from slipway_sandbox.demo.counts import Snapshot, Traffic
from tests.support.cluster_demo.cluster import adapt
from tests.support.cluster_demo.counting import target
from tests.support.cluster_demo.guarding import seconds_answered
from tests.support.cluster_demo.running import ROLLOUT
from tests.support.cluster_demo.tenancy import SECRET, release_parts
from tests.support.conformance.release.airflow import release_file


def deployment(image: str) -> dict[str, object]:
    """A Deployment as Knative's and Kourier's modules have it."""
    probe = {"initialDelaySeconds": 10, "periodSeconds": 5}
    container = {
        "image": image,
        "resources": {"requests": {"cpu": "300m"}, "limits": {"memory": "600Mi"}},
        "readinessProbe": dict(probe),
        "livenessProbe": dict(probe),
    }
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("ko://knative.dev/serving/cmd/activator", "localhost/slipway/knative-activator:demo"),
        ("ko://knative.dev/net-kourier/cmd/kourier", "localhost/slipway/kourier:demo"),
        ("docker.io/envoyproxy/envoy:v1.36-latest", "docker.io/envoyproxy/envoy:v1.36-latest"),
    ],
    ids=["knative", "kourier", "envoy"],
)
def test_a_deployment_gets_the_image_that_the_node_has_and_asks_for_little(image: str, expected: str) -> None:
    """Its limits stay, and it is looked at at once."""
    one = deployment(image)
    adapt(one, [{"ip": "10.88.7.2", "hostnames": ["autoscaler"]}])
    pod = one["spec"]["template"]["spec"]  # type: ignore[index]
    (container,) = pod["containers"]
    assert container["image"] == expected
    assert container["resources"] == {
        "requests": {"cpu": "10m", "memory": "32Mi"},
        "limits": {"memory": "600Mi"},
    }
    assert container["readinessProbe"] == {"periodSeconds": 1}
    assert container["livenessProbe"] == {"periodSeconds": 5}
    assert pod["hostAliases"] == [{"ip": "10.88.7.2", "hostnames": ["autoscaler"]}]


def test_prometheus_asks_the_queue_proxy_of_a_pod_that_has_an_address() -> None:
    """By the labels that the query set reads."""
    ports = [{"name": "http-usermetric", "containerPort": 9091}]
    pod = {
        "metadata": {"namespace": "models", "name": "digits-predictor-00001-deployment-a"},
        "spec": {"containers": [{"name": "kserve-container"}, {"name": "queue-proxy", "ports": ports}]},
        "status": {"podIP": "10.88.7.9"},
    }
    labels = {"namespace": "models", "pod": "digits-predictor-00001-deployment-a"}
    assert target(pod) == {"targets": ["10.88.7.9:9091"], "labels": labels}
    assert target(pod | {"status": {}}) is None
    assert target(pod | {"spec": {"containers": [{"name": "guard"}]}}) is None


def test_the_release_file_of_the_demo_is_valid(tmp_path: Path) -> None:
    """Its pods get their way to S3 from a Secret, and the judge asks the queue proxies."""
    release_file(tmp_path / "releases", release_parts(ROLLOUT))
    spec = load_release_spec(tmp_path / "releases" / "digits.yaml")
    assert spec.smoke_test is not None
    for pods in (spec.conversion, spec.smoke_test, spec.benchmark):
        assert {one.secret for one in pods.secret_env.values()} == {SECRET}
    assert spec.rollout.metrics.source == "prometheus"
    assert spec.rollout.deployment_mode == "Knative"


def test_the_seconds_in_which_a_version_answered_are_counted() -> None:
    """A count that stays the same is no answer."""
    counts = [{}, {"5": 2}, {"5": 2}, {"5": 3}]
    snapshots = [Snapshot(float(at), 0, 0, 0, {}, answered, {}) for at, answered in enumerate(counts)]
    assert seconds_answered(Traffic(snapshots), 5) == [1.0, 3.0]
    assert seconds_answered(Traffic(snapshots), 4) == []
