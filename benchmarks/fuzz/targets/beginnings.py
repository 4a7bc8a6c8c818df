"""ONNX files, as `slipway init` reads them: damaged ones, and sound ones that declare what no model has."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import onnx
from onnx import TensorProto, helper

from benchmarks.fuzz import mutate
from benchmarks.fuzz.target import Target
from slipway.cli.beginning.begin import begin

_NAMES = (
    "",
    "file",
    "allow_pickle",
    "label",
    "a/b",
    "../x",
    "X" * 5000,
    "\N{SNOWMAN}",
    "a: [b",
    "\x00",
    "{{ x }}",
    "#",
)
_SIZES = (0, -1, 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))


@cache
def _models() -> tuple[bytes, ...]:
    made = []
    for kind in (TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64):
        inputs = [helper.make_tensor_value_info("X", kind, ["rows", 4])]
        shape = ["rows", 4] if kind == TensorProto.FLOAT else ["rows"]
        outputs = [helper.make_tensor_value_info("Y", kind, shape)]
        graph = helper.make_graph([helper.make_node("Identity", ["X"], ["Y"])], "graph", inputs, outputs)
        made.append(helper.make_model(graph, ir_version=8).SerializeToString())
    return tuple(made)


def _mutated(rng: Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.5:
        return mutate.some_bytes(rng, seeds)
    model = onnx.ModelProto.FromString(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        values = rng.choice([model.graph.input, model.graph.output])
        value = rng.choice(values) if values else values.add()
        match rng.randrange(6):
            case 0:
                value.name = rng.choice(_NAMES)
            case 1:
                value.type.tensor_type.elem_type = rng.randint(-1, 30)
            case 2:
                for size in value.type.tensor_type.shape.dim:
                    size.dim_value = rng.choice(_SIZES)
            case 3:
                for _ in range(rng.choice([1, 3, 40])):
                    value.type.tensor_type.shape.dim.add().dim_value = rng.choice(_SIZES)
            case 4:
                value.type.ClearField("value") if rng.random() < 0.5 else value.type.tensor_type.ClearField(
                    "shape"
                )
            case _:
                values.add().CopyFrom(value)
    return bytes(model.SerializeToString())


def _read(content: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(content)
        return begin("digits", path, Path(folder) / "releases", Path(folder) / "golden.npz", 4)


TARGETS = (Target("slipway init: an ONNX file", _models, _mutated, _read, share=0.3),)
