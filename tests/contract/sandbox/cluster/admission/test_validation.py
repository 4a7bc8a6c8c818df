"""Objects that are wrong: refused with the field and the reason, never half taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import IMAGE, KSERVE, NAMESPACE, inference_service, pod

MODEL = {"modelFormat": {"name": "triton"}, "storageUri": "s3://models/digits/1"}


def refusal(error: ApiException) -> tuple[int, list[str], str]:
    """The code, the fields at fault, and the message."""
    body = json.loads(error.body)
    causes = body.get("details", {}).get("causes", [])
    return error.status, [cause["field"] for cause in causes], body["message"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": "5"}}, "string into Go struct field"),
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": 5.5}}, "number 5.5 into Go struct field"),
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": True}}, "bool into Go struct field"),
        ({"predictor": []}, "array into Go struct field InferenceServiceSpec.spec.predictor"),
        ({"predictor": {"model": [MODEL]}}, "field PredictorSpec.spec.predictor.model"),
        ({"predictor": {"model": {**MODEL, "storageUri": 7}}}, "storageUri of type string"),
        ({"predictor": {"model": {**MODEL, "storageUri": ["s3://x"]}}}, "storageUri of type string"),
        ({"predictor": {"model": {**MODEL, "modelFormat": "triton"}}}, "modelFormat of type"),
    ],
)
def test_an_inference_service_of_wrong_types_is_400_by_the_webhook(
    custom: client.CustomObjectsApi, spec: dict[str, Any], words: str
) -> None:
    """KServe's webhook decodes the object before the schema is looked at; its refusal has no reason."""
    body = inference_service("wrong") | {"spec": spec}
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*KSERVE, body)
    status, fields, message = refusal(refused.value)
    assert (status, fields) == (400, [])
    assert "reason" not in json.loads(refused.value.body)
    assert message.startswith('admission webhook "inferenceservice.kserve-webhook-server.defaulter" denied')
    assert words in message


@pytest.mark.parametrize(
    "spec", [None, {}, {"transformer": {}}, {"predictor": {}}, {"predictor": {"minReplicas": 1}}]
)
def test_a_predictor_that_runs_nothing_makes_the_webhook_panic(
    custom: client.CustomObjectsApi, spec: dict[str, Any] | None
) -> None:
    """A 500 without a reason, though nothing is out of order but the object."""
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*KSERVE, inference_service("wrong") | {"spec": spec})
    status, _, message = refusal(refused.value)
    assert status == 500
    assert 'defaulter" denied the request: panic: ' in message
    assert "reason" not in json.loads(refused.value.body)


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"predictor": {"model": MODEL, "scaleMetric": "mood"}}, "scaleMetric", "supported values"),
        ({"predictor": {"model": MODEL, "name": "V2"}}, "spec.predictor.name", "should match"),
    ],
)
def test_an_inference_service_that_breaks_its_schema_is_422(
    custom: client.CustomObjectsApi, spec: dict[str, Any], field: str, words: str
) -> None:
    """Wrong values and missing parts are 422 Invalid, and the message names the field."""
    body = inference_service("wrong") | {"spec": spec}
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*KSERVE, body)
    status, fields, message = refusal(refused.value)
    assert status == 422
    assert any(each.endswith(field) for each in fields)
    assert words in message
    assert message.startswith('InferenceService.serving.kserve.io "wrong" is invalid: ')


@pytest.mark.parametrize(
    "predictor",
    [
        {"model": {**MODEL, "env": [{"value": "x"}]}},
        {"model": MODEL, "tolerations": [{"effect": "Never"}]},
    ],
)
def test_what_only_a_pod_would_be_refused_for_is_stored(
    custom: client.CustomObjectsApi, name: str, predictor: dict[str, Any]
) -> None:
    """A predictor's schema knows the types of a pod's fields and not their bounds."""
    body = inference_service(name) | {"spec": {"predictor": predictor}}
    assert custom.create_namespaced_custom_object(*KSERVE, body)["spec"]["predictor"]


@pytest.mark.parametrize("percent", [101, -1])
def test_a_percent_that_is_none_is_stored(custom: client.CustomObjectsApi, name: str, percent: int) -> None:
    """KServe's schema has no bounds: who reads a percent must not trust it."""
    body = inference_service(name, canaryTrafficPercent=percent)
    created = custom.create_namespaced_custom_object(*KSERVE, body)
    assert created["spec"]["predictor"]["canaryTrafficPercent"] == percent


@pytest.mark.parametrize(
    ("given", "written"),
    [(None, "Knative"), ("Serverless", "Knative"), ("RawDeployment", "Standard"), ("Standard", "Standard")],
)
def test_the_webhook_writes_the_mode(
    custom: client.CustomObjectsApi, name: str, given: str | None, written: str
) -> None:
    """Every object has the annotation, and the new name of its mode."""
    body = inference_service(name)
    if given:
        body["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": given}
    created = custom.create_namespaced_custom_object(*KSERVE, body)
    assert created["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == written


def test_the_mode_stays_what_it_was(custom: client.CustomObjectsApi, name: str) -> None:
    """An object cannot change to the other mode; the old name of its own is no change."""
    custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    annotations = {"serving.kserve.io/deploymentMode": "Serverless"}
    custom.patch_namespaced_custom_object(*KSERVE, name, {"metadata": {"annotations": annotations}})
    annotations["serving.kserve.io/deploymentMode"] = "Standard"
    with pytest.raises(ApiException) as refused:
        custom.patch_namespaced_custom_object(*KSERVE, name, {"metadata": {"annotations": annotations}})
    assert "cannot be changed from 'Knative' to 'Standard'" in refused.value.body


def test_a_patch_to_an_invalid_object_changes_nothing(custom: client.CustomObjectsApi, name: str) -> None:
    """A patch is judged by what the object would become."""
    before = custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    for status, spec in (
        (400, {"predictor": {"canaryTrafficPercent": "50"}}),
        (400, {"predictor": {"model": {"storageUri": {"s3": "x"}}}}),
        (422, {"predictor": {"name": "V2"}}),
        (500, {"predictor": None}),
        (500, {"predictor": {"model": None}}),
    ):
        with pytest.raises(ApiException) as refused:
            custom.patch_namespaced_custom_object(*KSERVE, name, {"spec": spec})
        assert refused.value.status == status
    assert custom.get_namespaced_custom_object(*KSERVE, name) == before


@pytest.mark.parametrize(
    ("name", "predictor", "words"),
    [
        (
            "wrong",
            {"triton": {"storageUri": "s3://x"}, "sklearn": {"storageUri": "s3://x"}},
            "exactly one of",
        ),
        ("wrong", {"model": {**MODEL, "name": "x"}}, "'name' field is not allowed"),
        ("wrong", {"model": MODEL, "minReplicas": 3, "maxReplicas": 1}, "cannot be greater"),
        ("1wrong", {"model": MODEL}, "must start with alphabetical character"),
        ("wro.ng", {"model": MODEL}, "lower case alphanumeric"),
    ],
)
def test_what_kserves_webhook_denies_is_403(
    custom: client.CustomObjectsApi, name: str, predictor: dict[str, Any], words: str
) -> None:
    """What fits the schema but not KServe's rules is denied in the name of its webhook."""
    body = inference_service(name)
    body["spec"]["predictor"] = predictor
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*KSERVE, body)
    status, _, message = refusal(refused.value)
    assert status == 403
    assert 'admission webhook "inferenceservice.kserve-webhook-server.validator" denied' in message
    assert words in message


CONTAINER = {"name": "base", "image": IMAGE, "command": ["true"]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "base"}]}, "spec.containers[0].image"),
        ({"containers": [{"image": IMAGE}]}, "spec.containers[0].name"),
        ({"containers": [{**CONTAINER, "name": "Base_1"}]}, "spec.containers[0].name"),
        ({"containers": [CONTAINER, CONTAINER]}, "spec.containers[1].name"),
        (
            {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "much"}}}]},
            "spec.containers[0].resources.limits[cpu]",
        ),
        ({"containers": [{**CONTAINER, "env": [{"name": "A=B"}]}]}, "spec.containers[0].env[0].name"),
        ({"containers": [CONTAINER], "activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
        ({"containers": [CONTAINER], "restartPolicy": "Always"}, "spec.restartPolicy"),
        ({"containers": [CONTAINER], "initContainers": [CONTAINER]}, "spec.initContainers"),
    ],
)
def test_an_invalid_pod_is_422(core: client.CoreV1Api, spec: dict[str, Any], field: str) -> None:
    """A pod that cannot run, or not here, is 422 Invalid and the cause names the field."""
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, pod("wrong") | {"spec": {"restartPolicy": "Never", **spec}})
    status, fields, message = refusal(refused.value)
    assert (status, fields) == (422, [field])
    assert message.startswith('Pod "wrong" is invalid: ')


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"name": "../up"}, "metadata.name"),
        ({}, "metadata.name"),
        ({"name": "x", "labels": {"a": "not valid"}}, "metadata.labels"),
        ({"name": "x", "labels": {"a": "x" * 64}}, "metadata.labels"),
        ({"name": "x", "labels": {"a/b/c": "x"}}, "metadata.labels"),
        ({"name": "x", "annotations": {"no spaces": "x"}}, "metadata.annotations"),
        ({"name": "x", "annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
    ],
)
def test_invalid_metadata_is_422(core: client.CoreV1Api, metadata: dict[str, Any], field: str) -> None:
    """Names, labels and annotations are held to Kubernetes' rules."""
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, pod("x", "true") | {"metadata": metadata})
    status, fields, _ = refusal(refused.value)
    assert (status, set(fields)) == (422, {field})


def test_a_pod_that_does_not_decode_is_400(core: client.CoreV1Api) -> None:
    """A core type is decoded before it is validated: a wrong type is 400, as on the real server."""
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, pod("wrong", "true", activeDeadlineSeconds="soon"))
    status, _, message = refusal(refused.value)
    assert status == 400
    assert "cannot be handled as a Pod" in message
    assert "spec.activeDeadlineSeconds" in message


def test_a_generated_name_is_unique(core: client.CoreV1Api) -> None:
    """generateName makes a name of its own for each object."""
    body = pod("x", "true")
    body["metadata"] = {"generateName": "many-"}
    names = {core.create_namespaced_pod(NAMESPACE, body).metadata.name for _ in range(3)}
    assert len(names) == 3
    assert all(each.startswith("many-") for each in names)
