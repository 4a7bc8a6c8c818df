"""The project's own manifests, applied on the server's side with strict validation, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.conformance.api import Object
from tests.support.conformance.manifests import FOLDER, manifest_files, objects_of
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.rollouts import NAME, Rollouts
from tests.support.conformance.storage_containers import verifying_storage
from tests.support.waiting import wait_until

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.mark.parametrize("path", manifest_files(), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_manifest_is_taken_as_it_stands(cluster: RealCluster, path: Path) -> None:
    """No field is unknown and none is invalid; applied again, the object is the same."""
    namespace = cluster.new_namespace(RESTRICTED)
    listed = list(objects_of(path, namespace))
    try:
        for manifest in listed:
            stored = cluster.api.apply(manifest)
            again = cluster.api.apply(manifest)
            assert _without_metadata(again) == _without_metadata(stored)
    finally:
        cluster.remove_shared(listed)


def test_the_guards_pod_is_admitted_by_the_restricted_standard(cluster: RealCluster) -> None:
    """In a namespace that enforces the restricted Pod Security Standard the Deployment gets its pod."""
    namespace = cluster.new_namespace(RESTRICTED)
    for name in ("rbac", "deployment"):
        for manifest in objects_of(FOLDER / "guard" / f"{name}.yaml", namespace):
            cluster.api.apply(manifest)

    def available() -> bool:
        found = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/slipway-guard")
        return found is not None and found.get("status", {}).get("availableReplicas") == 1

    wait_until(available, "the guard's pod is there")


@pytest.fixture
def default_storage(cluster: RealCluster) -> Iterator[None]:
    """The default storage initializer takes only the lane's other models, as the manifest's page asks for."""
    with verifying_storage(cluster):
        yield


def test_kserve_calls_the_verifying_storage_initializer(
    cluster: RealCluster, standard: Rollouts, default_storage: None
) -> None:
    """A pod of a published version gets our init container, with the address, the folder and the keys."""
    (manifest,) = objects_of(FOLDER / "verify" / "cluster-storage-container.yaml", standard.namespace)
    manifest["spec"]["supportedUriFormats"] = [{"prefix": "s3://verified/models/"}]
    cluster.api.apply(manifest)
    address = f"s3://verified/models/{NAME}/1/repository"
    service = standard.manifest(1)
    service["spec"]["predictor"]["model"]["storageUri"] = address
    assert standard.hook.create(service)
    pod = wait_until(lambda: _first(standard.objects("/api/v1/pods")), "the predictor's pod")
    (container,) = pod["spec"]["initContainers"]
    assert container["image"] == "registry.example.com/slipway/verify:0.1.0"
    assert container["args"] == [address, "/mnt/models"]
    assert "SLIPWAY_PUBLIC_KEYS" in {one["name"] for one in container["env"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]


def _without_metadata(stored: Object) -> Object:
    return {key: value for key, value in stored.items() if key not in ("metadata", "status")}


def _first(pods: list[Object]) -> Object | None:
    return pods[0] if pods else None
