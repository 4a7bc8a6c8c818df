"""Versions, generations, patches and selectors: what a controller relies on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import KSERVE, NAMESPACE, Emulator, inference_service, pod


def patched(custom: client.CustomObjectsApi, name: str, patch: dict[str, Any]) -> dict[str, Any]:
    """Lays a merge patch over the named InferenceService."""
    result: dict[str, Any] = custom.patch_namespaced_custom_object(*KSERVE, name, patch)
    return result


def percent(value: int | None, **metadata: str) -> dict[str, Any]:
    """A patch of the canary's percent."""
    return {"metadata": metadata, "spec": {"predictor": {"canaryTrafficPercent": value}}}


@pytest.fixture
def service(custom: client.CustomObjectsApi, name: str) -> dict[str, Any]:
    """A new InferenceService."""
    result: dict[str, Any] = custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    return result


def test_a_patch_of_a_stale_version_is_a_conflict(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """A merge patch that carries a resourceVersion which is no longer the present one changes nothing: 409."""
    seen = service["metadata"]["resourceVersion"]
    patched(custom, name, percent(5, resourceVersion=seen))
    with pytest.raises(ApiException) as refused:
        patched(custom, name, percent(10, resourceVersion=seen))
    body = json.loads(refused.value.body)
    assert (refused.value.status, body["reason"]) == (409, "Conflict")
    assert "please apply your changes to the latest version" in body["message"]
    present = custom.get_namespaced_custom_object(*KSERVE, name)
    assert present["spec"]["predictor"]["canaryTrafficPercent"] == 5


def test_null_in_a_patch_removes_the_field(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """A merge patch takes a field away by null and leaves its neighbours."""
    patched(custom, name, percent(5))
    predictor = patched(custom, name, percent(None))["spec"]["predictor"]
    assert "canaryTrafficPercent" not in predictor
    assert predictor["model"] == service["spec"]["predictor"]["model"]


def test_the_generation_follows_the_spec_alone(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """The generation grows with a change of the spec and with nothing else."""
    assert service["metadata"]["generation"] == 1
    assert patched(custom, name, percent(5))["metadata"]["generation"] == 2
    annotated = patched(custom, name, {"metadata": {"annotations": {"slipway.dev/release": "digits-2"}}})
    assert annotated["metadata"]["generation"] == 2
    status = {"status": {"url": "http://x"}}
    reported = custom.patch_namespaced_custom_object_status(*KSERVE, name, status)
    assert reported["metadata"]["generation"] == 2
    assert int(reported["metadata"]["resourceVersion"]) > int(annotated["metadata"]["resourceVersion"])


def test_a_patch_that_changes_nothing_makes_no_new_version(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """The same content again is no change, and nobody is told of one."""
    first = patched(custom, name, percent(5))
    assert patched(custom, name, percent(5)) == first


def test_status_and_spec_are_written_apart(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """The status subresource cannot touch the spec, and the object's own address cannot touch the status."""
    both = {"status": {"url": "http://x"}, "spec": {"predictor": {"canaryTrafficPercent": 50}}}
    by_status = custom.patch_namespaced_custom_object_status(*KSERVE, name, both)
    assert by_status["spec"] == service["spec"]
    assert by_status["status"] == {"url": "http://x"}
    by_object = patched(custom, name, {"status": {"url": "http://y"}, **percent(7)})
    assert by_object["spec"]["predictor"]["canaryTrafficPercent"] == 7
    assert by_object["status"] == {"url": "http://x"}


def test_a_new_object_brings_no_status(custom: client.CustomObjectsApi, name: str) -> None:
    """What a client says about the status of a new object is dropped."""
    body = inference_service(name) | {"status": {"url": "http://x"}}
    assert "status" not in custom.create_namespaced_custom_object(*KSERVE, body)


def test_a_replacement_needs_the_present_version(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """PUT without a version is 422, with an old one 409, with the present one it replaces the whole spec."""
    replacement = inference_service(name, uri="s3://models/digits/2/repository")
    with pytest.raises(ApiException) as missing:
        custom.replace_namespaced_custom_object(*KSERVE, name, replacement)
    assert missing.value.status == 422
    assert "must be specified for an update" in missing.value.body
    replacement["metadata"]["resourceVersion"] = service["metadata"]["resourceVersion"]
    replaced = custom.replace_namespaced_custom_object(*KSERVE, name, replacement)
    model = replaced["spec"]["predictor"]["model"]
    assert model["storageUri"] == "s3://models/digits/2/repository"
    assert replaced["metadata"]["uid"] == service["metadata"]["uid"]
    with pytest.raises(ApiException) as stale:
        custom.replace_namespaced_custom_object(*KSERVE, name, replacement)
    assert stale.value.status == 409


def test_identity_cannot_be_patched(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """Another name is 400, another uid 422, and what the server owns stays as it is."""
    with pytest.raises(ApiException) as renamed:
        patched(custom, name, {"metadata": {"name": "other"}})
    assert renamed.value.status == 400
    with pytest.raises(ApiException) as other:
        patched(custom, name, {"metadata": {"uid": "0-0"}})
    assert other.value.status == 422
    assert "field is immutable" in other.value.body
    kept = patched(
        custom, name, {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z", "generation": 99}}
    )
    assert kept["metadata"] == service["metadata"]


def test_a_finalizer_holds_an_object_until_it_is_taken_off(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """Deleting an object with a finalizer marks it; it is gone when the last finalizer is."""
    patched(custom, name, {"metadata": {"finalizers": ["example.com/hold"]}})
    marked = custom.delete_namespaced_custom_object(*KSERVE, name)
    assert marked["metadata"]["deletionTimestamp"]
    assert custom.get_namespaced_custom_object(*KSERVE, name)["metadata"]["deletionTimestamp"]
    patched(custom, name, {"metadata": {"finalizers": None}})
    with pytest.raises(ApiException) as gone:
        custom.get_namespaced_custom_object(*KSERVE, name)
    assert gone.value.status == 404


def test_deletion_heeds_its_preconditions(
    custom: client.CustomObjectsApi, service: dict[str, Any], name: str
) -> None:
    """A DELETE meant for another object of the same name is 409."""
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="0-0"))
    with pytest.raises(ApiException) as refused:
        custom.delete_namespaced_custom_object(*KSERVE, name, body=options)
    assert refused.value.status == 409
    options.preconditions.uid = service["metadata"]["uid"]
    assert custom.delete_namespaced_custom_object(*KSERVE, name, body=options)["status"] == "Success"


def test_unknown_fields_are_dropped_with_a_warning_or_refused_when_asked(
    custom: client.CustomObjectsApi, name: str
) -> None:
    """A misspelt field is dropped and warned of, as the real server does; strict validation refuses it."""
    body = inference_service(name, canaryTrafficPercnt=5)
    with pytest.raises(ApiException) as strict:
        custom.create_namespaced_custom_object(*KSERVE, body, field_validation="Strict")
    assert strict.value.status == 400
    assert 'unknown field \\"spec.predictor.canaryTrafficPercnt\\"' in strict.value.body
    created, status, headers = custom.create_namespaced_custom_object_with_http_info(*KSERVE, body)
    assert status == 201
    assert "canaryTrafficPercnt" in headers["Warning"]
    assert "canaryTrafficPercnt" not in created["spec"]["predictor"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=gold", ["a"]),
        ("tier==gold", ["a"]),
        ("tier!=gold", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier in (gold, silver)", ["a", "b"]),
        ("tier notin (gold)", ["b", "c"]),
        ("tier in (gold,silver),size>3", ["b"]),
        ("size<3", ["a"]),
        ("tier=", []),
        ("example.com/owner=me,!absent,tier!=gold", ["c"]),
    ],
)
def test_label_selectors_choose_as_kubernetes_does(
    custom: client.CustomObjectsApi, selector: str, expected: list[str]
) -> None:
    """Equality, sets, existence and comparison, and their conjunction."""
    labels: dict[str, dict[str, str]] = {
        "a": {"tier": "gold", "size": "2"},
        "b": {"tier": "silver", "size": "5"},
        "c": {"example.com/owner": "me"},
    }
    address = (*KSERVE[:2], "selectors", KSERVE[3])
    present = [each["metadata"]["name"] for each in custom.list_namespaced_custom_object(*address)["items"]]
    for each, own in labels.items():
        body = inference_service(each)
        body["metadata"] = {"name": each, "labels": own}
        # The objects stay for the next selector.
        if each not in present:
            custom.create_namespaced_custom_object(*address, body)
    listed = custom.list_namespaced_custom_object(*address, label_selector=selector)
    assert [each["metadata"]["name"] for each in listed["items"]] == expected


def test_lists_reach_over_namespaces(custom: client.CustomObjectsApi, name: str) -> None:
    """A list of the whole cluster holds objects of every namespace."""
    group, version, _, plural = KSERVE
    for namespace in ("first", "second"):
        body = inference_service(name)
        body["metadata"]["namespace"] = namespace
        custom.create_namespaced_custom_object(group, version, namespace, plural, body)
    listed = custom.list_cluster_custom_object(group, version, plural, field_selector=f"metadata.name={name}")
    assert [each["metadata"]["namespace"] for each in listed["items"]] == ["first", "second"]


def test_a_pods_labels_can_be_patched_but_not_what_it_runs(core: client.CoreV1Api, name: str) -> None:
    """The client's strategic merge patch changes metadata; a change of the spec is 422."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "sleep", "30", terminationGracePeriodSeconds=1))
    changed = core.patch_namespaced_pod(
        name, NAMESPACE, {"metadata": {"labels": {"already_checked": "True"}}}
    )
    assert changed.metadata.labels == {"test": name, "already_checked": "True"}
    with pytest.raises(ApiException) as refused:
        core.patch_namespaced_pod(name, NAMESPACE, {"spec": {"activeDeadlineSeconds": 5}})
    assert refused.value.status == 422
    core.delete_namespaced_pod(name, NAMESPACE)


@pytest.mark.parametrize("crash", [False, True])
def test_a_restart_forgets_no_inference_service(
    make_emulator: Callable[..., Emulator], name: str, crash: bool
) -> None:
    """Objects outlive the process, whether it was stopped or killed, and versions go on growing."""
    cluster = make_emulator()
    cluster.start()
    custom = client.CustomObjectsApi(cluster.api_client())
    before = custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    if crash:
        cluster.kill()
    else:
        assert cluster.stop() == 0
    cluster.start()
    assert custom.get_namespaced_custom_object(*KSERVE, name) == before
    after = patched(custom, name, percent(5, resourceVersion=before["metadata"]["resourceVersion"]))
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
