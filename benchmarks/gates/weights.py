"""The weights of an ONNX graph, wherever they lie: initializers and constants, those of inner graphs included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Array = NDArray[Any]

_SMALLEST = 32


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from graphs(inner)


def weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the tensors of fractions with at least some tens of elements, in the order of the file."""
    found = []
    for graph in graphs(model.graph):
        tensors = [*graph.initializer]
        for node in graph.node:
            tensors += [one.t for one in node.attribute if one.HasField("t")]
        found += [one for one in tensors if _is_weight(one)]
    return found


def change(tensor: onnx.TensorProto, values: Array) -> None:
    """Write other values into a tensor, in its own type and shape."""
    before = numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        tensor.CopyFrom(
            numpy_helper.from_array(np.ascontiguousarray(values, dtype=before.dtype), tensor.name)
        )


def values_of(tensor: onnx.TensorProto) -> Array:
    """Return a tensor's values."""
    return numpy_helper.to_array(tensor).copy()


def _is_weight(tensor: onnx.TensorProto) -> bool:
    fractions = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    return tensor.data_type in fractions and int(np.prod(tensor.dims or [0])) >= _SMALLEST
