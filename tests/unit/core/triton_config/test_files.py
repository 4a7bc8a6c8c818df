"""The files that a configuration names."""

from __future__ import annotations

import pytest

from slipway_core.errors import ModelInvalidError
from slipway_core.triton_config.files import named_files, platform_of
from slipway_core.triton_config.pbtxt import from_pbtxt

_BASE = """
name: "m"
output { name: "a" label_filename: "labels.txt" } output { name: "b" } output { name: "c" label_filename: "labels.txt" }
model_warmup { name: "zeros" inputs { key: "x" value { zero_data: true } } }
model_warmup { name: "rows" inputs { key: "x" value { input_data_file: "rows/x.bin" } } }
sequence_batching { state { initial_state { zero_data: true } } state { initial_state { data_file: "h.bin" } } }
"""


def test_each_file_is_told_with_its_field() -> None:
    """Labels lie beside config.pbtxt, warm-up data and initial states in folders of their own."""
    assert named_files(from_pbtxt(_BASE)) == {
        "labels.txt": "output[0].label_filename",
        "warmup/rows/x.bin": "model_warmup[1].inputs[x].input_data_file",
        "initial_state/h.bin": "sequence_batching.state[1].initial_state.data_file",
    }
    assert named_files({"name": "m"}) == {}


@pytest.mark.parametrize("path", ["../labels.txt", "/etc/passwd", "a//b", ".hidden", "with space.txt"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    """A configuration cannot name what is not its own."""
    with pytest.raises(
        ModelInvalidError, match=r"`output\[0\]\.label_filename` names a file that isn't in its folder"
    ):
        named_files({"name": "m", "output": [{"label_filename": path}]})


def test_file_names_tell_the_platform() -> None:
    """Triton's own file names; a folder may be one model; others say nothing."""
    assert platform_of(["model.plan"]) == "tensorrt_plan"
    assert platform_of(["model.onnx/weights", "model.onnx/graph"]) == "onnxruntime_onnx"
    assert platform_of(["model.pt"]) == "pytorch_libtorch"
    assert platform_of(["model.py"]) is None
    assert platform_of([]) is None
