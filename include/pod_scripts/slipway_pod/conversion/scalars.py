"""Single numbers as tensors of one element: Triton serves no tensor without a dimension, where there is no batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slipway_pod.models.onnx_files import save

_SUFFIX = "__single_number"


def has_scalars(model: Any) -> bool:
    """Return whether an input or output has no dimension at all."""
    return any(is_scalar(value) for value in (*model.graph.input, *model.graph.output))


def is_scalar(value: Any) -> bool:
    """Return whether a tensor is known to have no dimension; one of unknown rank is not."""
    kind = value.type.tensor_type
    return bool(kind.HasField("shape")) and not kind.shape.dim


def widen_scalars(source: Path, target: Path) -> None:
    """Write the model with [1] in place of each input and output without a dimension, and a reshape behind it."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(source)
    graph = model.graph
    for role, values in (("input", graph.input), ("output", graph.output)):
        for value in (one for one in values if is_scalar(one)):
            name, inner = value.name, f"{value.name}{_SUFFIX}"
            _rename(graph, name, inner)
            value.type.tensor_type.shape.dim.add().dim_value = 1
            shape = numpy_helper.from_array(_sizes(() if role == "input" else (1,)), f"{inner}_shape")
            graph.initializer.append(shape)
            ends = [name, inner] if role == "input" else [inner, name]
            node = helper.make_node("Reshape", [ends[0], shape.name], [ends[1]])
            graph.node.insert(0 if role == "input" else len(graph.node), node)
    save(model, target)


def _sizes(shape: tuple[int, ...]) -> Any:
    import numpy as np

    return np.asarray(shape, dtype=np.int64)


def _rename(graph: Any, name: str, other: str) -> None:
    for one in _graphs(graph):
        for node in one.node:
            node.input[:] = [other if value == name else value for value in node.input]
            node.output[:] = [other if value == name else value for value in node.output]


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)
