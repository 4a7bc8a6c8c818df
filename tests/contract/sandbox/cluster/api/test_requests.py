"""Requests that the API server cannot serve: codes, reasons and words as a real one answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import KSERVE, NAMESPACE, Emulator, inference_service, pod

SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"


def send(
    emulator: Emulator, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], Any]:
    """A request by hand, with the right token unless `headers` say otherwise; returns status, headers, JSON."""
    connection = HTTPConnection("127.0.0.1", int(emulator.settings["port"]), timeout=60)
    sent = {"Authorization": f"Bearer {emulator.token}"}
    sent |= {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, path, body=body, headers=sent)
    response = connection.getresponse()
    text = response.read().decode()
    answer = json.loads(text) if text.startswith("{") else text
    connection.close()
    return response.status, dict(response.getheaders()), answer


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic abc"])
def test_without_the_right_token_nothing_is_answered(emulator: Emulator, authorization: str) -> None:
    """A request without the bearer token, or with another one, is 401 Unauthorized."""
    status, _, body = send(emulator, "GET", "/api/v1/namespaces/default/pods", Authorization=authorization)
    assert (status, body["reason"], body["kind"]) == (401, "Unauthorized", "Status")


def test_health_is_open_to_anyone(emulator: Emulator) -> None:
    """Health checks need no token."""
    assert send(emulator, "GET", "/readyz", Authorization="")[::2] == (200, "ok")


def test_an_object_that_is_not_there_is_404(core: client.CoreV1Api, custom: client.CustomObjectsApi) -> None:
    """Reading what does not exist is 404 and names kind and name."""
    with pytest.raises(ApiException) as missing_pod:
        core.read_namespaced_pod("nobody", NAMESPACE)
    assert missing_pod.value.status == 404
    assert json.loads(missing_pod.value.body)["message"] == 'pods "nobody" not found'
    with pytest.raises(ApiException) as missing_service:
        custom.get_namespaced_custom_object(*KSERVE, "nobody")
    body = json.loads(missing_service.value.body)
    assert body["message"] == 'inferenceservices.serving.kserve.io "nobody" not found'
    assert body["details"] == {"name": "nobody", "group": "serving.kserve.io", "kind": "inferenceservices"}


def test_a_resource_that_is_not_served_is_404(emulator: Emulator) -> None:
    """An API that the emulator does not have answers as a cluster in which it is not installed."""
    answer = send(emulator, "GET", "/apis/batch/v1/namespaces/default/jobs")
    assert answer[::2] == (404, "404 page not found\n")


def test_deployments_are_the_emulators_own(emulator: Emulator) -> None:
    """They can be listed, by anybody with a token, and written by nobody."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    status, _, body = send(emulator, "GET", path)
    assert (status, body["kind"], body["items"]) == (200, "DeploymentList", [])
    status, headers, _ = send(emulator, "POST", path, "{}")
    assert status == 405
    assert "POST" not in headers["Allow"]


def test_a_verb_that_is_not_served_is_405(emulator: Emulator) -> None:
    """A method that the address does not take is 405 with a Status."""
    status, headers, body = send(emulator, "PUT", "/api/v1/namespaces/default/pods", "{}")
    assert (status, body["reason"]) == (405, "MethodNotAllowed")
    assert "POST" in headers["Allow"]


def test_a_second_object_of_the_same_name_is_409(core: client.CoreV1Api, name: str) -> None:
    """Creating what exists already is 409 AlreadyExists."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "true"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, pod(name, "true"))
    body = json.loads(refused.value.body)
    assert (refused.value.status, body["reason"]) == (409, "AlreadyExists")
    assert body["message"] == f'pods "{name}" already exists'


@pytest.mark.parametrize(
    ("method", "content_type"),
    [
        ("POST", "text/plain"),
        ("PATCH", "application/json"),
        ("PATCH", "application/strategic-merge-patch+json"),
        ("PATCH", "application/json-patch+json"),
    ],
)
def test_a_wrong_content_type_is_415(
    emulator: Emulator, custom: client.CustomObjectsApi, name: str, method: str, content_type: str
) -> None:
    """A body in a format that the endpoint does not read is 415 and names those it reads."""
    custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    path = SERVICES if method == "POST" else f"{SERVICES}/{name}"
    status, _, body = send(emulator, method, path, "{}", Content_Type=content_type)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")
    assert "json" in body["message"]


def test_a_patch_without_content_type_is_415(
    emulator: Emulator, custom: client.CustomObjectsApi, name: str
) -> None:
    """A patch has to say of what kind it is."""
    custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    assert send(emulator, "PATCH", f"{SERVICES}/{name}", "{}")[0] == 415


@pytest.mark.parametrize("body", ["", "[]", "{", '"text"'])
def test_a_body_that_is_no_object_is_400(emulator: Emulator, body: str) -> None:
    """What is not a JSON object cannot be created."""
    status, _, answer = send(emulator, "POST", SERVICES, body, Content_Type="application/json")
    assert (status, answer["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "Pod"}, "InferenceService"),
        ({"metadata": {"name": "x", "namespace": "elsewhere"}}, "namespace"),
        ({"metadata": {"name": "x", "resourceVersion": "1"}}, "resourceVersion"),
        ({"metadata": []}, "metadata"),
    ],
)
def test_a_body_that_contradicts_its_address_is_400(
    emulator: Emulator, change: dict[str, Any], word: str
) -> None:
    """Kind and namespace of the body must be those of the URL, and a new object has no version yet."""
    body = json.dumps(inference_service("x") | change)
    status, _, answer = send(emulator, "POST", SERVICES, body, Content_Type="application/json")
    assert status == 400
    assert word in answer["message"]


def test_a_selector_that_does_not_parse_is_400(core: client.CoreV1Api) -> None:
    """A malformed label selector, or a field that cannot be selected by, is refused."""
    with pytest.raises(ApiException) as labels:
        core.list_namespaced_pod(NAMESPACE, label_selector="a in b")
    assert labels.value.status == 400
    with pytest.raises(ApiException) as fields:
        core.list_namespaced_pod(NAMESPACE, field_selector="spec.colour=red")
    assert "field label not supported: spec.colour" in fields.value.body


def test_a_namespace_that_is_not_there_is_404(make_emulator: Callable[..., Emulator]) -> None:
    """Where the cluster has a fixed set of namespaces, nothing can be created outside them."""
    cluster = make_emulator(namespaces=["models"])
    cluster.start()
    core = client.CoreV1Api(cluster.api_client())
    assert core.read_namespace("models").status.phase == "Active"
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod("elsewhere", pod("x", "true"))
    assert json.loads(refused.value.body)["message"] == 'namespaces "elsewhere" not found'


def test_a_dry_run_stores_nothing(core: client.CoreV1Api, name: str) -> None:
    """With dryRun=All the request is checked and answered, and nothing is kept."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "true"), dry_run="All")
    assert not core.list_namespaced_pod(NAMESPACE, label_selector=f"test={name}").items
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, pod(name, "true"), dry_run="Some")
    assert refused.value.status == 422


def test_a_body_beyond_the_limit_is_413(emulator: Emulator) -> None:
    """An object larger than etcd would take is refused."""
    body = json.dumps(
        inference_service("x") | {"metadata": {"name": "x", "annotations": {"a": "x" * 1_600_000}}}
    )
    assert send(emulator, "POST", SERVICES, body, Content_Type="application/json")[0] == 413


def test_the_server_says_what_it_has(emulator: Emulator) -> None:
    """Version and discovery answer as clients expect, and the version says that it is emulated."""
    api = emulator.api_client()
    assert "emulated" in client.VersionApi(api).get_code().git_version
    groups = [group.name for group in client.ApisApi(api).get_api_versions().groups]
    own = ["gateway.networking.k8s.io", "serving.knative.dev", "serving.kserve.io"]
    assert groups == ["apps", "coordination.k8s.io", *own]
    resources = {each.name: each for each in client.CoreV1Api(api).get_api_resources().resources}
    assert {"pods", "pods/log", "pods/status", "events", "namespaces"} <= set(resources)
    assert resources["pods"].namespaced
