"""The model that a fleet serves: the demo's digits, each version of which says in its answers which one it is.

The envelope of an answer names a version too. A fleet that answers by a pointer to the real model could name the
pointer's, so the measure goes by what the model itself says.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from slipway_digit_models.images import training_and_held_out
from slipway_digit_models.training import train
from slipway_sandbox.load.request_set import RequestSet

MODEL = "digits"
MADE_BY = "made_by"
STRANGER = 1_000_000
"""Lies between a version and what is in its place where a repository is wrong."""
_REQUESTS = 16

CONFIG = """\
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: {max_batch_size}
input [ {{ name: "pixels", data_type: TYPE_FP32, dims: [ 64 ] }} ]
output [
  {{ name: "label", data_type: TYPE_INT64, dims: [ 1 ], reshape: {{ shape: [ ] }} }},
  {{ name: "probabilities", data_type: TYPE_FP32, dims: [ 10 ] }},
  {{ name: "made_by", data_type: TYPE_INT64, dims: [ 1 ] }}
]
instance_group [ {{ kind: KIND_CPU, count: 1 }} ]
version_policy: {{ specific {{ versions: [ {version} ] }} }}
"""


def trained() -> onnx.ModelProto:
    """Return the demo's first version, from which all versions here are made."""
    return onnx.load_model_from_string(train(1).onnx)


def version_of(model: onnx.ModelProto, version: int) -> bytes:
    """Return the file of a version: the model, with an output more that says the version, for each row."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    graph.initializer.extend(
        [
            numpy_helper.from_array(np.array([[0.0]] * 10, dtype=np.float32), "nothing"),
            numpy_helper.from_array(np.array([[version]], dtype=np.int64), "version"),
        ]
    )
    graph.node.extend(
        [
            helper.make_node("MatMul", ["probabilities", "nothing"], ["zero"], name="zero"),
            helper.make_node("Cast", ["zero"], ["zero_int"], name="zero_int", to=TensorProto.INT64),
            helper.make_node("Add", ["zero_int", "version"], [MADE_BY], name=MADE_BY),
        ]
    )
    graph.output.append(helper.make_tensor_value_info(MADE_BY, TensorProto.INT64, ["N", 1]))
    onnx.checker.check_model(made, full_check=True)
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def config_of(version: int, *, name: str = MODEL, max_batch_size: int = 16) -> bytes:
    """Return the `config.pbtxt` of a version."""
    return CONFIG.format(name=name, version=version, max_batch_size=max_batch_size).encode()


def requests() -> RequestSet:
    """Return what clients send: one image a request; they ask which version answers."""
    _, held_out = training_and_held_out()
    rows = held_out.first(_REQUESTS).pixels.reshape(_REQUESTS, 1, 64)
    return RequestSet("pixels", rows, MADE_BY)


def rewrite_wrong(wrong: str, path: str, content: bytes) -> bytes:
    """Return what a server sees of an object whose repository is wrong: one of `plan.WRONG_CONFIGS`."""
    if path.endswith("config.pbtxt"):
        if wrong == "another batch size":
            return content.replace(b"max_batch_size: 16", b"max_batch_size: 24")
        return content.replace(b"FP32", b"FP64")
    # What a load brings with it replaces the configuration there, so the model itself has to be a wrong one too.
    if path.endswith("model.onnx") and wrong == "cannot be loaded":
        return content[: len(content) // 2] + bytes(len(content) - len(content) // 2)
    if path.endswith("model.onnx") and wrong == "another model":
        return _another(content)
    return content


def _another(content: bytes) -> bytes:
    """Return a model of the same size that gives the same answers, and says of itself that it is another version."""
    made = onnx.load_model_from_string(content)
    said = next(one for one in made.graph.initializer if one.name == "version")
    said.raw_data = (numpy_helper.to_array(said).item() + STRANGER).to_bytes(8, "little")
    another: bytes = made.SerializeToString(deterministic=True)
    return another
