"""Fields of a pod that Knative takes only where its operator has turned them on."""

from __future__ import annotations

import pytest

from slipway_core.rollout.dialects.knative.features import features_lacking
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.spec.release_file import parse_release_spec

FILE = "model: yolo\nsource: {format: onnx}\nrollout: {%s}\n"


def lacking(rollout: str, config: dict[str, str] | None) -> tuple[str, ...]:
    spec = parse_release_spec(FILE % rollout, "yolo.yaml")
    return features_lacking(inference_service_manifest(spec, "s3://bkt/models/yolo/1/repository"), config)


@pytest.mark.parametrize(
    ("rollout", "feature"),
    [
        ("node_selector: {gpu: l4}", "kubernetes.podspec-nodeselector"),
        ("tolerations: [{operator: Exists}]", "kubernetes.podspec-tolerations"),
        ("affinity: {node_affinity: {}}", "kubernetes.podspec-affinity"),
        ("priority_class: online", "kubernetes.podspec-priorityclassname"),
        ("runtime_class: nvidia", "kubernetes.podspec-runtimeclassname"),
    ],
)
def test_what_knative_would_refuse_is_named_with_its_switch(rollout: str, feature: str) -> None:
    """Off unless the ConfigMap says otherwise; where it cannot be read nothing is known."""
    (told,) = lacking(rollout, {"_example": "…"})
    assert f"`{feature}: enabled`" in told
    assert f"`rollout.{rollout.partition(':')[0]}`" in told
    assert lacking(rollout, {feature: "Disabled"})
    assert lacking(rollout, {feature: "enabled"}) == lacking(rollout, {feature: "Allowed"}) == ()
    assert lacking(rollout, None) == ()


def test_devices_and_secrets_need_no_switch() -> None:
    """Resources and Secrets of images are fields that Knative always takes."""
    assert lacking("image_pull_secrets: [registry], resources: {gpu: 1}, min_replicas: 2", {}) == ()
