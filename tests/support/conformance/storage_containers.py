"""KServe's storage containers while the project's own is tried: where two take an address, either may get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.conformance.real_cluster import RealCluster

STORAGE_CONTAINERS = "/apis/serving.kserve.io/v1alpha1/clusterstoragecontainers"


@contextmanager
def verifying_storage(cluster: RealCluster) -> Iterator[None]:
    """Have the default one take only the lane's other models, and remove the project's own afterwards."""
    path = f"{STORAGE_CONTAINERS}/default"
    before = cluster.api.must("GET", path)["spec"]["supportedUriFormats"]
    others = [one for one in before if one.get("prefix") != "s3://"]
    cluster.api.merge(path, {"spec": {"supportedUriFormats": [*others, {"prefix": "s3://models/"}]}})
    try:
        yield
    finally:
        cluster.api.merge(path, {"spec": {"supportedUriFormats": before}})
        cluster.api.ask("DELETE", f"{STORAGE_CONTAINERS}/slipway-verify")
