"""The release file's `smoke_test`: on by default, and on a node that can serve the model."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.smoke_test import SmokeTest

MINIMAL = "model: digits\nsource: {format: onnx}\n"
ON_A_GPU = "serving: {instances: [{kind: gpu}]}\n"
ENGINE = "conversion: {target: tensorrt, node_selector: {gpu: l4}, resources: {memory: 24Gi}, startup_timeout_s: 900}\n"


def smoke_test(text: str) -> SmokeTest:
    found = parse_release_spec(MINIMAL + text, "digits.yaml").smoke_test
    assert found is not None
    return found


def test_it_is_on_unless_the_file_leaves_it_out() -> None:
    """A file that does not mention it gets it; `null` leaves it out."""
    assert smoke_test("") == SmokeTest()
    assert parse_release_spec(f"{MINIMAL}smoke_test: null\n", "digits.yaml").smoke_test is None
    with pytest.raises(SpecError, match="loads"):
        smoke_test("smoke_test: {load: 1}\n")


def test_a_model_on_a_gpu_gets_a_pod_with_one() -> None:
    """One GPU for instances on GPUs, unless the file says otherwise."""
    assert smoke_test("").resources.gpu == 0
    assert smoke_test(ON_A_GPU).resources.gpu == 1
    assert smoke_test(f"{ON_A_GPU}smoke_test: {{resources: {{gpu: 2}}}}\n").resources.gpu == 2


def test_an_engine_is_tried_where_it_was_built() -> None:
    """The converter's node can load it; what the file says of the pod is kept."""
    found = smoke_test(ENGINE)
    assert (found.resources.gpu, found.resources.memory, found.startup_timeout_s) == (1, "24Gi", 900)
    assert found.node_selector == {"gpu": "l4"}
    said = smoke_test(f"{ENGINE}smoke_test: {{node_selector: {{gpu: h100}}}}\n")
    assert (said.node_selector, said.resources.gpu) == ({"gpu": "h100"}, 1)
