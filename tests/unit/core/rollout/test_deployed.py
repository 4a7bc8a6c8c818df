"""What is deployed, held against the release file: told where it differs, and never changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_core.rollout.dialects.registry import observe
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.servers.deployed import deployed_otherwise
from slipway_core.rollout.servers.served import served_protocol
from slipway_core.spec.release_file import parse_release_spec

URI = "s3://bkt/models/yolo/1/repository"


def wanted(rollout: str = "") -> dict[str, Any]:
    text = f"model: yolo\nsource: {{format: onnx}}\nrollout: {{resources: {{memory: 1024Mi}}, {rollout}}}\n"
    return inference_service_manifest(parse_release_spec(text, "yolo.yaml"), URI)


def told(file: dict[str, Any], isvc: dict[str, Any]) -> tuple[str, ...]:
    return deployed_otherwise(file, isvc["spec"]["predictor"], "Knative")


def test_what_is_deployed_as_the_file_says_is_not_told() -> None:
    """The API server writes quantities in its own way and adds fields; the model is the release's to change."""
    live = copy.deepcopy(wanted())
    live["spec"]["predictor"]["model"] |= {"name": "", "storageUri": "s3://bkt/models/yolo/7/repository"}
    live["spec"]["predictor"]["model"]["resources"]["limits"]["memory"] = "1Gi"
    live["spec"]["predictor"]["model"]["resources"]["requests"] = {"cpu": "1000m", "memory": "1Gi"}
    live["spec"]["predictor"]["containerConcurrency"] = 4
    assert told(wanted(), live) == ()


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ("node_selector: {gpu: l4}", '`node_selector` is not set, in the release file {"gpu": "l4"}'),
        ("max_replicas: 4", "`max_replicas` is not set, in the release file 4"),
        ("runtime: triton", "`runtime` is kserve-tritonserver, in the release file triton"),
        ("deployment_mode: Standard", "`deployment_mode` is Knative, in the release file Standard"),
    ],
)
def test_what_the_file_says_and_is_not_deployed_is_told(rollout: str, expected: str) -> None:
    """With the file's own key, what is there, and what the file says."""
    assert expected in told(wanted(rollout), wanted())


def test_what_a_person_has_set_is_told_too() -> None:
    """A GPU and a taint that the file does not know stay, and are named."""
    live = wanted()
    live["spec"]["predictor"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    live["spec"]["predictor"]["model"]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    found = told(wanted(), live)
    assert '`tolerations` is [{"key": "gpu", "operator": "Exists"}], in the release file not set' in found
    assert "`resources (limits, nvidia.com/gpu)` is 1, in the release file not set" in found


@pytest.mark.parametrize("hostile", [None, [], "x", {"predictor": 3}, {"predictor": {"model": [1]}}])
def test_an_object_of_another_form_is_told_and_no_crash(hostile: Any) -> None:
    """Whatever somebody has written there."""
    predictor = observe({"spec": hostile}).predictor
    assert deployed_otherwise(wanted(), predictor, "Knative")
    assert served_protocol(predictor) == "http"


@pytest.mark.parametrize(
    ("model", "protocol"),
    [
        ({}, "http"),
        ({"protocolVersion": "v2"}, "http"),
        ({"protocolVersion": "grpc-v2"}, "grpc"),
        ({"ports": [{"containerPort": 9000, "name": "h2c"}]}, "grpc"),
        ({"ports": [{"containerPort": 9000, "name": "grpc"}]}, "grpc"),
        ({"ports": [{"containerPort": 8080, "name": "http1"}]}, "http"),
        ({"ports": "9000"}, "http"),
    ],
)
def test_the_protocol_of_what_is_deployed_is_seen(model: dict[str, Any], protocol: str) -> None:
    """By its version, or by the name of its port, as Knative and KServe know it."""
    assert served_protocol({"model": model}) == protocol
