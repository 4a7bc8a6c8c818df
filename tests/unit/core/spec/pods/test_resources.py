"""What a container asks of its node, with GPUs by the name that their device plugin gives them."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec

MINIMAL = "model: yolo\nsource: {format: onnx}\n"


def limits(resources: str) -> dict[str, Any]:
    text = f"{MINIMAL}rollout: {{resources: {resources}}}\n"
    return parse_release_spec(text, "yolo.yaml").rollout.resources.to_kubernetes()["limits"]


@pytest.mark.parametrize("name", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "amd.com/gpu"])
def test_a_slice_of_a_gpu_is_asked_for_by_its_name(name: str) -> None:
    """The name alone asks for one; the whole GPU's name is then asked for nowhere."""
    assert limits(f"{{gpu_resource: {name}}}") == {"memory": "2Gi", name: "1"}
    assert limits(f"{{gpu: 2, gpu_resource: {name}}}")[name] == "2"


def test_other_devices_are_asked_for_beside_gpus() -> None:
    """A network adapter of a device plugin of its own is a resource like a GPU."""
    found = limits("{gpu: 1, extended: {vpc.amazonaws.com/efa: 4}}")
    assert found == {"memory": "2Gi", "nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "4"}


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ("{gpu: 0.25}", "gpu_resource: nvidia.com/mig-1g.10gb"),
        ("{gpu: 1.0}", "a whole number"),
        ("{gpu: true}", "a whole number"),
        ("{gpu: -1}", "greater than or equal to 0"),
        ("{gpu: 0, gpu_resource: nvidia.com/gpu.shared}", "asks for nothing"),
        ("{gpu_resource: gpu}", "with its domain"),
        ("{gpu_resource: kubernetes.io/gpu}", "with its domain"),
        ("{gpu_resource: requests.nvidia.com/gpu}", "with its domain"),
        ("{gpu_resource: nvidia.com/}", "with its domain"),
        ("{gpu_ressource: nvidia.com/gpu}", "Did you mean `rollout.resources.gpu_resource`?"),
        ("{extended: {nvidia.com/mig-1g.5gb: 1}}", "`gpu_resource: nvidia.com/mig-1g.5gb` in its place"),
        ("{extended: {efa: 1}}", "with its domain"),
        ("{extended: {vpc.amazonaws.com/efa: 0}}", "greater than or equal to 1"),
        ("{memory: 16}", "1Mi or more"),
        ("{memory: 512m}", "1Mi or more"),
        ("{memory: 16GB}", "a Kubernetes quantity"),
        ("{cpu: two}", "a Kubernetes quantity"),
    ],
)
def test_what_no_node_could_give_is_refused(resources: str, told: str) -> None:
    """Fractions, names without a domain, and sizes that are of another unit than was meant."""
    with pytest.raises(SpecError) as raised:
        limits(resources)
    assert told in str(raised.value)
