"""What a model that needs a GPU gets where it is served, and where it is tried first."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec, release_spec_of
from slipway_core.spec.smoke_test import SmokeTest

ONNX = "model: yolo\nsource: {format: onnx}\n"
CHAT = "model: chat\nsource: {format: checkpoint}\n"
ENGINE = f"{ONNX}conversion: {{target: tensorrt}}\n"
MIG = "nvidia.com/mig-1g.10gb"


def spec_of(text: str) -> ReleaseSpec:
    return parse_release_spec(text, "model.yaml")


def served(text: str) -> dict[str, str]:
    """The predictor's limits."""
    manifest = inference_service_manifest(spec_of(text), "s3://bkt/models/yolo/1/repository")
    found: dict[str, str] = manifest["spec"]["predictor"]["model"]["resources"]["limits"]
    return found


def tried(text: str) -> SmokeTest:
    found = spec_of(text).smoke_test
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        (ENGINE, {"memory": "8Gi", "nvidia.com/gpu": "1"}),
        (f"{ENGINE}rollout: {{resources: {{cpu: 4}}}}\n", {"memory": "8Gi", "nvidia.com/gpu": "1"}),
        (f"{ENGINE}rollout: {{resources: {{memory: 16Gi}}}}\n", {"memory": "16Gi", "nvidia.com/gpu": "1"}),
        (
            f"{ONNX}conversion: {{target: tensorrt, resources: {{gpu_resource: {MIG}}}}}\n",
            {"memory": "8Gi", MIG: "1"},
        ),
        (f"{ENGINE}rollout: {{resources: {{gpu_resource: {MIG}}}}}\n", {"memory": "8Gi", MIG: "1"}),
        (f"{CHAT}conversion: {{target: tensorrt_llm}}\n", {"memory": "32Gi", "nvidia.com/gpu": "1"}),
        (
            f"{CHAT}conversion: {{target: tensorrt_llm, tp_size: 2, pp_size: 2}}\n",
            {"memory": "32Gi", "nvidia.com/gpu": "4"},
        ),
        (f"{ONNX}serving: {{instances: [{{kind: gpu}}]}}\n", {"memory": "8Gi", "nvidia.com/gpu": "1"}),
        (
            f"{ONNX}serving: {{optimization: {{gpu_accelerators: [{{name: tensorrt}}]}}}}\n",
            {"memory": "8Gi", "nvidia.com/gpu": "1"},
        ),
        (
            f"{ONNX}serving: {{hardware: {{compute_capability: '8.9', tensorrt: 10.13.2}}}}\n",
            {"memory": "8Gi", "nvidia.com/gpu": "1"},
        ),
        (f"{ONNX}serving: {{instances: [{{kind: cpu}}]}}\n", {"memory": "2Gi"}),
        (ONNX, {"memory": "2Gi"}),
    ],
)
def test_a_model_that_needs_a_gpu_is_served_on_one(text: str, limits: dict[str, str]) -> None:
    """The InferenceService asks for as many devices as the model needs, by the name that the file gives them."""
    assert served(text) == limits


def test_an_engine_is_not_served_on_fewer_gpus_than_it_was_built_for() -> None:
    """A file that says so is refused where it is read, not by a pod that ends again and again."""
    with pytest.raises(SpecError, match="is too few"):
        spec_of(f"{ENGINE}rollout: {{resources: {{gpu: 0}}}}\n")
    with pytest.raises(SpecError, match="served on 2"):
        spec_of(
            f"{CHAT}conversion: {{target: tensorrt_llm, tp_size: 2}}\nrollout: {{resources: {{gpu: 1}}}}\n"
        )


def test_a_language_model_is_tried_where_its_engines_can_be_loaded() -> None:
    """Its smoke test has GPU, memory and disk of the build, and the image with TensorRT-LLM's backend."""
    test = tried(
        f"{CHAT}conversion: {{target: tensorrt_llm, tolerations: [{{key: gpu, operator: Exists}}]}}\n"
    )
    assert test.container_resources()["limits"] == {
        "memory": "96Gi",
        "nvidia.com/gpu": "1",
        "ephemeral-storage": "500Gi",
    }
    assert test.image == "slipway/smoke-test:0.1.0-tensorrt-llm"
    assert [one.key for one in test.tolerations] == ["gpu"]
    assert test.scratch_limit == "500Gi"


def test_what_the_file_says_of_the_smoke_test_stays() -> None:
    """Single resources can be said: the others come from where the engine was built."""
    test = tried(f"{ENGINE}smoke_test: {{resources: {{memory: 4Gi}}, image: 'mine/smoke:1'}}\n")
    assert test.resources.to_kubernetes()["limits"] == {"memory": "4Gi", "nvidia.com/gpu": "1"}
    assert test.image == "mine/smoke:1"


def test_a_model_on_a_gpu_is_tried_on_such_a_node_as_its_servers_have() -> None:
    """Node selector, taints and the device's name are those of `rollout`, for a model that is no engine."""
    test = tried(
        f"{ONNX}serving: {{instances: [{{kind: gpu}}]}}\n"
        "rollout: {node_selector: {gpu: a100}, tolerations: [{operator: Exists}], "
        f"resources: {{gpu_resource: {MIG}}}}}\n"
    )
    assert (test.node_selector, test.resources.gpu_resource, test.resources.gpu) == ({"gpu": "a100"}, MIG, 1)
    assert len(test.tolerations) == 1


@pytest.mark.parametrize("text", [ENGINE, f"{CHAT}conversion: {{target: tensorrt_llm, tp_size: 2}}\n", ONNX])
def test_what_follows_is_the_same_in_every_task(text: str) -> None:
    """A release file that is written out whole, as a run hands it on, is read as the same one."""
    spec = spec_of(text)
    assert release_spec_of(spec.model_dump(mode="json"), "the run") == spec
