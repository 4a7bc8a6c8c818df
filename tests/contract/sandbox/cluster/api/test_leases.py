"""Leases, by which a holder tells that it is alive, and events that clients write."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import KSERVE, NAMESPACE, Emulator, inference_service

LEASES = ("coordination.k8s.io", "v1", NAMESPACE, "leases")
RENEWED = "2026-11-20T10:00:00.000000Z"


@pytest.fixture
def coordination(emulator: Emulator) -> client.CoordinationV1Api:
    """The official client for leases."""
    return client.CoordinationV1Api(emulator.api_client())


def lease(name: str, **spec: Any) -> dict[str, Any]:
    """A lease of 60 s; `spec` adds to or replaces parts of its spec."""
    terms = {"holderIdentity": "digits-2", "leaseDurationSeconds": 60, "renewTime": RENEWED}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "labels": {"held-by": name}},
        "spec": terms | spec,
    }


def refusal(error: ApiException) -> tuple[int, str]:
    """The code and the message."""
    return error.status, json.loads(error.body)["message"]


def test_a_lease_is_read_as_the_official_client_has_it(
    coordination: client.CoordinationV1Api, name: str
) -> None:
    """The typed client creates a lease and reads back holder, duration and a time with microseconds."""
    now = datetime(2026, 11, 20, 10, 0, 0, 123456, tzinfo=UTC)
    spec = client.V1LeaseSpec(holder_identity="digits-2", lease_duration_seconds=60, renew_time=now)
    metadata = client.V1ObjectMeta(name=name)
    coordination.create_namespaced_lease(NAMESPACE, client.V1Lease(metadata=metadata, spec=spec))
    read = coordination.read_namespaced_lease(name, NAMESPACE)
    assert (read.spec.holder_identity, read.spec.lease_duration_seconds) == ("digits-2", 60)
    assert read.spec.renew_time == now


def test_leases_are_found_by_label_in_all_namespaces(custom: client.CustomObjectsApi, name: str) -> None:
    """A list over all namespaces with a label selector holds the lease and no other."""
    custom.create_namespaced_custom_object(*LEASES, lease(name))
    found = custom.list_cluster_custom_object(
        LEASES[0], LEASES[1], LEASES[3], label_selector=f"held-by={name}"
    )
    assert [item["metadata"]["name"] for item in found["items"]] == [name]


@pytest.mark.parametrize("field", ["renewTime", "acquireTime"])
def test_a_time_without_microseconds_is_400(custom: client.CustomObjectsApi, name: str, field: str) -> None:
    """A lease's times need six digits of a second: what writes whole seconds without them is refused."""
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*LEASES, lease(name, **{field: "2026-11-20T10:00:00Z"}))
    status, message = refusal(refused.value)
    assert status == 400
    assert message.startswith('Lease in version "v1" cannot be handled as a Lease: ')
    assert 'as "2006-01-02T15:04:05.000000Z07:00"' in message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
        ({"leaseTransitions": -1}, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal"),
    ],
)
def test_a_lease_that_makes_no_sense_is_422(
    custom: client.CustomObjectsApi, name: str, spec: dict[str, int], words: str
) -> None:
    """Numbers that no lease can have are 422 Invalid, and the message names the field."""
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*LEASES, lease(name, **spec))
    status, message = refusal(refused.value)
    assert status == 422
    assert words in message


def test_whoever_renews_or_ends_a_lease_first_wins(custom: client.CustomObjectsApi, name: str) -> None:
    """Two patches that carry the same resourceVersion: the first is taken, the second is a conflict."""
    seen = custom.create_namespaced_custom_object(*LEASES, lease(name))["metadata"]["resourceVersion"]
    renewal = {"metadata": {"resourceVersion": seen}, "spec": {"renewTime": "2026-11-20T10:00:20.000000Z"}}
    end = {"metadata": {"resourceVersion": seen, "annotations": {"slipway.dev/ended-by": "guard"}}}
    custom.patch_namespaced_custom_object(*LEASES, name, renewal)
    with pytest.raises(ApiException) as refused:
        custom.patch_namespaced_custom_object(*LEASES, name, end)
    assert refused.value.status == 409
    assert "annotations" not in custom.get_namespaced_custom_object(*LEASES, name)["metadata"]


def test_a_lease_is_deleted_only_in_the_state_that_was_seen(
    custom: client.CustomObjectsApi, name: str
) -> None:
    """A delete with preconditions is a conflict once the lease was renewed, and works with the present version."""
    created = custom.create_namespaced_custom_object(*LEASES, lease(name))["metadata"]
    renewal = {"spec": {"renewTime": "2026-11-20T10:00:20.000000Z"}}
    renewed = custom.patch_namespaced_custom_object(*LEASES, name, renewal)["metadata"]

    def delete(resource_version: str) -> None:
        preconditions = client.V1Preconditions(uid=created["uid"], resource_version=resource_version)
        options = client.V1DeleteOptions(preconditions=preconditions)
        custom.delete_namespaced_custom_object(*LEASES, name, body=options)

    with pytest.raises(ApiException) as refused:
        delete(created["resourceVersion"])
    assert refused.value.status == 409
    delete(renewed["resourceVersion"])
    with pytest.raises(ApiException) as gone:
        custom.get_namespaced_custom_object(*LEASES, name)
    assert gone.value.status == 404


def test_a_lease_tells_when_it_was_last_written_by_the_servers_clock(
    custom: client.CustomObjectsApi, name: str
) -> None:
    """metadata.managedFields is dated by the server, whatever time the holder writes into the spec."""
    created = custom.create_namespaced_custom_object(
        *LEASES, lease(name, renewTime="1999-01-01T00:00:00.000000Z")
    )
    (manager,) = created["metadata"]["managedFields"]
    written = datetime.fromisoformat(manager["time"])
    assert abs((datetime.now(UTC) - written).total_seconds()) < 10


def event(service: dict[str, Any], namespace: str) -> dict[str, Any]:
    """An event about an InferenceService, as a client other than the cluster itself writes it."""
    metadata = service["metadata"]
    involved = {key: metadata[key] for key in ("name", "uid", "resourceVersion")}
    involved |= {"kind": service["kind"], "apiVersion": service["apiVersion"], "namespace": namespace}
    return {
        "metadata": {"name": f"{metadata['name']}.told"},
        "involvedObject": involved,
        "type": "Warning",
        "reason": "CanaryEnded",
        "message": "Its lease ran out.",
        "source": {"component": "slipway-guard"},
        "firstTimestamp": "2026-11-20T10:00:00Z",
        "lastTimestamp": "2026-11-20T10:00:00Z",
        "count": 1,
    }


def test_a_clients_event_is_found_by_the_object_that_it_is_about(
    custom: client.CustomObjectsApi, core: client.CoreV1Api, name: str
) -> None:
    """An event that a client writes about an InferenceService is listed for it; a second of that name is a 409."""
    service = custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    core.create_namespaced_event(NAMESPACE, event(service, NAMESPACE))
    selector = f"involvedObject.kind=InferenceService,involvedObject.name={name}"
    (found,) = core.list_namespaced_event(NAMESPACE, field_selector=selector).items
    assert (found.reason, found.type, found.source.component) == ("CanaryEnded", "Warning", "slipway-guard")
    with pytest.raises(ApiException) as twice:
        core.create_namespaced_event(NAMESPACE, event(service, NAMESPACE))
    assert twice.value.status == 409


def test_an_event_in_another_namespace_than_its_object_is_422(
    custom: client.CustomObjectsApi, core: client.CoreV1Api, name: str
) -> None:
    """An event lies in the namespace of the object that it is about, or is refused."""
    service = custom.create_namespaced_custom_object(*KSERVE, inference_service(name))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_event(NAMESPACE, event(service, "elsewhere"))
    status, message = refusal(refused.value)
    assert status == 422
    assert 'involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace' in message


def test_leases_outlive_the_emulator(make_emulator: Any, name: str) -> None:
    """After a restart of the emulator a lease is there as it was, its version included."""
    emulator = make_emulator()
    emulator.start()
    custom = client.CustomObjectsApi(emulator.api_client())
    created = custom.create_namespaced_custom_object(*LEASES, lease(name))
    emulator.kill()
    emulator.start()
    custom = client.CustomObjectsApi(emulator.api_client())
    assert custom.get_namespaced_custom_object(*LEASES, name) == created
