"""An ensemble of a Python model and an ONNX model, as training leaves it: `prices` = lookup(scale(x))."""

from __future__ import annotations

from pathlib import Path

from tests.support.serving.models import table_model

PROGRAM = """
import json
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.factor = json.loads(args["model_config"])["parameters"]["factor"]["string_value"]

    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(one, "x").as_numpy()) for one in requests]

    def answer(self, x):
        scaled = (x * float(self.factor)).astype("float32")
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", scaled)])
"""

TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""

SCALE = """
backend: "python"
max_batch_size: 16
parameters [ {{ key: "factor" value: {{ string_value: "{factor}" }} }} ]
instance_group [ {{ kind: KIND_CPU }} ]
""" + TENSORS.replace("{", "{{").replace("}", "}}")

LOOKUP = (
    """
backend: "onnxruntime"
platform: "onnxruntime_onnx"
max_batch_size: 16
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
    + TENSORS
)

STEPS = """
platform: "ensemble"
max_batch_size: 16
ensemble_scheduling { step [
  { model_name: "scale" model_version: -1
    input_map { key: "x" value: "x" } output_map { key: "y" value: "scaled" } },
  { model_name: "lookup" model_version: -1
    input_map { key: "x" value: "scaled" } output_map { key: "y" value: "y" } }
] }
"""


def ensemble_files(scale: float = 1.0, lookup: float = 2.0, top: str = "prices") -> dict[str, bytes]:
    """Return the repository's files by path; every member's version is 1, as training numbers it."""
    return {
        f"{top}/config.pbtxt": (STEPS + TENSORS).encode(),
        "scale/config.pbtxt": SCALE.format(factor=scale).encode(),
        "scale/1/model.py": PROGRAM.encode(),
        "lookup/config.pbtxt": LOOKUP.encode(),
        "lookup/1/model.onnx": table_model(lookup),
    }


def python_files(factor: float = 1.0) -> dict[str, bytes]:
    """Return the files of the Python model alone."""
    return {"config.pbtxt": SCALE.format(factor=factor).encode(), "model.py": PROGRAM.encode()}


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder and return it."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return folder
