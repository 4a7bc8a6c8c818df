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
    ("spec", "field", "words"),
    [
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": 101}}, "canaryTrafficPercent", "101"),
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": -1}}, "canaryTrafficPercent", "-1"),
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": "5"}}, "canaryTrafficPercent", "integer"),
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": 5.5}}, "canaryTrafficPercent", "integer"),
        ({"predictor": {"model": MODEL, "canaryTrafficPercent": True}}, "canaryTrafficPercent", "boolean"),
        ({}, "spec.predictor", "Required"),
        ({"transformer": {}}, "spec.predictor", "Required"),
        ({"predictor": []}, "spec.predictor", "object"),
        ({"predictor": {"model": [MODEL]}}, "spec.predictor.model", "array"),
        ({"predictor": {"model": {**MODEL, "storageUri": 7}}}, "model.storageUri", "string"),
        ({"predictor": {"model": {**MODEL, "storageUri": ["s3://x"]}}}, "model.storageUri", "string"),
        ({"predictor": {"model": {**MODEL, "modelFormat": "triton"}}}, "model.modelFormat", "object"),
        ({"predictor": {"model": {"storageUri": "s3://x"}}}, "model.modelFormat", "Required"),
        ({"predictor": {"model": {**MODEL, "env": [{"value": "x"}]}}}, "env[0].name", "Required"),
        ({"predictor": {"model": MODEL, "tolerations": [{"effect": "Never"}]}}, "effect", "supported values"),
        ({"predictor": {"model": MODEL, "scaleMetric": "mood"}}, "scaleMetric", "supported values"),
    ],
)
def test_an_inference_service_that_breaks_its_schema_is_422(
    custom: client.CustomObjectsApi, spec: dict[str, Any], field: str, words: str
) -> None:
    """Wrong types, wrong values and missing parts are 422 Invalid, and the message names the field."""
    body = inference_service("wrong") | {"spec": spec}
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*KSERVE, body)
    status, fields, message = refusal(refused.value)
    assert status == 422
    assert any(each.endswith(field) for each in fields)
    assert words in message
    assert message.startswith('InferenceService.serving.kserve.io "wrong" is invalid: ')


def test_a_patch_to_an_invalid_object_is_422_and_changes_nothing(
    custom: client.CustomObjectsApi, name: str
) -> None:
    """A patch is judged by what the object would become."""
    before = custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    for patch in (
        {"spec": {"predictor": {"canaryTrafficPercent": 101}}},
        {"spec": {"predictor": {"canaryTrafficPercent": "50"}}},
        {"spec": {"predictor": None}},
        {"spec": {"predictor": {"model": {"storageUri": {"s3": "x"}}}}},
    ):
        with pytest.raises(ApiException) as refused:
            custom.patch_namespaced_custom_object(*KSERVE, name, patch)
        assert refused.value.status == 422
    assert custom.get_namespaced_custom_object(*KSERVE, name) == before


@pytest.mark.parametrize(
    ("name", "predictor", "words"),
    [
        ("wrong", {}, "exactly one of"),
        ("wrong", {"model": MODEL, "sklearn": {"storageUri": "s3://x"}}, "exactly one of"),
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
