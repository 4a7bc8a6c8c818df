"""Canaries and HTTPRoutes through the API: what KServe's webhook refuses, and what Gateway API's schema knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import KSERVE, NAMESPACE, inference_service

# As KServe's webhook leaves it, so that what is stored is what was sent.
MODEL = {
    "modelFormat": {"name": "triton"},
    "name": "",
    "resources": {},
    "storageUri": "s3://models/digits/2/repository",
}
ROUTES = ("gateway.networking.k8s.io", "v1", NAMESPACE, "httproutes")


def canary(percent: int, name: str = "v2", **predictor: Any) -> dict[str, Any]:
    """Return a canary of the second version; `predictor` adds to its predictor."""
    return {"trafficPercent": percent, "predictor": {"name": name, "model": MODEL, **predictor}}


def with_canaries(name: str, *canaries: dict[str, Any], mode: str = "Standard") -> dict[str, Any]:
    """Return an InferenceService that has canaries."""
    service = inference_service(name)
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": mode}
    service["spec"]["canary"] = list(canaries)
    return service


@pytest.mark.parametrize(
    "canaries",
    [
        [canary(0)],
        [canary(100)],
        [canary(50), canary(50, "v3")],
        [canary(10, minReplicas=1)],
    ],
)
def test_canaries_that_kserve_takes_are_kept(
    custom: client.CustomObjectsApi, name: str, canaries: list[dict[str, Any]]
) -> None:
    """From 0 to 100 % in all, with names of their own, and as many replicas as stable at most."""
    created = custom.create_namespaced_custom_object(*KSERVE, with_canaries(name, *canaries))
    assert created["spec"]["canary"] == canaries


@pytest.mark.parametrize(
    ("canaries", "mode", "words"),
    [
        ([canary(10)], "Knative", "only supported in Standard deployment mode"),
        ([{"trafficPercent": 10, "predictor": {"model": MODEL}}], "Standard", "predictor.name is required"),
        ([canary(10), canary(20)], "Standard", "is duplicated"),
        ([canary(10, "stable")], "Standard", "conflicts with stable"),
        ([canary(60), canary(50, "v3")], "Standard", "must be <= 100"),
        ([canary(10, maxReplicas=5)], "Standard", "must not set maxReplicas"),
        ([canary(10, scaleTarget=5)], "Standard", "must not set scaleTarget"),
        ([canary(10, workerSpec={})], "Standard", "must not set workerSpec"),
        ([canary(10, minReplicas=2)], "Standard", "must not exceed stable"),
    ],
)
def test_the_webhook_denies_what_kserve_does(
    custom: client.CustomObjectsApi, name: str, canaries: list[dict[str, Any]], mode: str, words: str
) -> None:
    """403 in the webhook's name, with the rule that is broken."""
    service = with_canaries(name, *canaries, mode=mode)
    service["spec"]["predictor"]["name"] = "stable"
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*KSERVE, service)
    assert refused.value.status == 403
    assert words in refused.value.body


def test_a_new_name_needs_a_new_model(custom: client.CustomObjectsApi, name: str) -> None:
    """A promotion changes both; the name alone would replace stable's Deployment by accident."""
    custom.create_namespaced_custom_object(*KSERVE, with_canaries(name, canary(10)))
    with pytest.raises(ApiException) as refused:
        custom.patch_namespaced_custom_object(
            *KSERVE, name, {"spec": {"canary": None, "predictor": {"name": "v2"}}}
        )
    assert "requires a model change" in refused.value.body
    promotion = {"spec": {"canary": None, "predictor": {"name": "v2", "model": MODEL}}}
    promoted = custom.patch_namespaced_custom_object(*KSERVE, name, promotion)
    assert promoted["spec"]["predictor"]["name"] == "v2"
    assert "canary" not in promoted["spec"]


def test_a_merge_patch_replaces_the_list_whole(custom: client.CustomObjectsApi, name: str) -> None:
    """Who gives one canary back drops the other: a list is a value."""
    custom.create_namespaced_custom_object(*KSERVE, with_canaries(name, canary(10), canary(20, "v3")))
    patched = custom.patch_namespaced_custom_object(*KSERVE, name, {"spec": {"canary": [canary(30)]}})
    assert patched["spec"]["canary"] == [canary(30)]


def test_an_http_route_keeps_its_weights_and_counts_its_generations(
    custom: client.CustomObjectsApi, name: str
) -> None:
    """Known fields are kept, a weight that is none is refused, and only the spec makes a new generation."""
    backend = {"group": "", "kind": "Service", "port": 80}
    rules = [
        {
            "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            "backendRefs": [{**backend, "name": "a", "weight": 80}, {**backend, "name": "b", "weight": 20}],
        }
    ]
    body = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "gateway"}], "hostnames": ["digits.example.org"], "rules": rules},
    }
    created = custom.create_namespaced_custom_object(*ROUTES, body)
    assert created["spec"]["rules"] == rules
    taken = custom.patch_namespaced_custom_object_status(*ROUTES, name, {"status": {"parents": []}})
    assert taken["metadata"]["generation"] == 1
    changed = {"spec": {"rules": [{"backendRefs": [{"name": "a", "weight": -1}]}]}}
    with pytest.raises(ApiException) as refused:
        custom.patch_namespaced_custom_object(*ROUTES, name, changed)
    assert refused.value.status == 422


def test_an_http_route_of_wrong_types_is_422_by_its_schema(
    custom: client.CustomObjectsApi, name: str
) -> None:
    """No webhook decodes it: the schema names the field, the cause has a reason of its own, and CEL did not look."""
    body = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name},
        "spec": {"rules": [{"backendRefs": [{"name": "a", "port": 80, "weight": "all"}]}]},
    }
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*ROUTES, body)
    assert refused.value.status == 422
    cause, _ = json.loads(refused.value.body)["details"]["causes"]
    assert cause["field"] == "spec.rules[0].backendRefs[0].weight"
    assert cause["reason"] == "FieldValueTypeInvalid"
