"""A first version, in each of KServe's modes, on the real control plane."""

from __future__ import annotations

from slipway_core.rollout.next_action import Done
from tests.support.conformance.rollouts import NAME, Rollouts, uri


def test_knative_gives_the_first_version_its_service_and_all_traffic(knative: Rollouts) -> None:
    """KServe makes a Knative Service, Knative a revision, and the driver sees all traffic on it."""
    reached = knative.first()
    assert isinstance(reached.action, Done)
    assert dict(reached.action.traffic) == {f"{NAME}-predictor-00001": 100}
    (service,) = knative.objects("/apis/serving.knative.dev/v1/services")
    assert service["metadata"]["name"] == f"{NAME}-predictor"
    assert knative.observed().storage_uri == uri(1)


def test_standard_gives_the_first_version_its_deployment_and_all_traffic(standard: Rollouts) -> None:
    """KServe makes a Deployment and HTTPRoutes, and the driver sees all traffic on it."""
    reached = standard.first()
    assert isinstance(reached.action, Done)
    assert dict(reached.action.traffic) == {f"{NAME}-predictor": 100}
    (deployment,) = standard.objects("/apis/apps/v1/deployments")
    assert deployment["status"]["availableReplicas"] == 1
    routes = standard.objects("/apis/gateway.networking.k8s.io/v1/httproutes")
    assert {route["metadata"]["name"] for route in routes} == {NAME, f"{NAME}-predictor"}
