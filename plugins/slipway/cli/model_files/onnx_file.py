"""What an ONNX file says without being run: its signature, the names of sizes that vary, what makes each output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.cli.model_files.signature import load_graph, signature_of
from slipway_core.tensors import ModelSignature

_METADATA_CHARACTERS = 200
# What only moves, casts or picks values says nothing of what they mean.
_PASSING = frozenset(
    (
        *("Identity", "Unsqueeze", "Squeeze", "Reshape", "Cast", "Transpose", "Flatten", "Slice", "Gather"),
        *("Concat", "ReduceMean", "QuantizeLinear", "DequantizeLinear", "Dropout", "Clip"),
    )
)
_STEPS = 64


@dataclass(frozen=True)
class OnnxFile:
    """A model's file.

    :ivar outputs_in_order: their names as the file has them; a signature orders them by name.
    :ivar symbols: by tensor, the name of each size that varies; "" for one that is fixed or has no name.
    :ivar makers: by output, the operator whose values it holds, such as Softmax; "" where that is not found.
    :ivar unshaped: outputs whose number of sizes the file does not declare.
    :ivar metadata: what the exporter wrote beside the graph, such as the size of its images.
    """

    path: Path
    signature: ModelSignature
    outputs_in_order: tuple[str, ...] = ()
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    makers: Mapping[str, str] = field(default_factory=dict)
    unshaped: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_onnx(path: Path) -> OnnxFile:
    """Return what an ONNX file says.

    :raises CommandError: it cannot be read, or has tensors that Triton cannot carry.
    """
    model = load_graph(path)
    graph = model.graph
    signature = signature_of(path, graph)
    known = {tensor.name for tensor in (*signature.inputs, *signature.outputs)}
    return OnnxFile(
        path,
        signature,
        tuple(value.name for value in graph.output),
        {value.name: _symbols(value) for value in (*graph.input, *graph.output) if value.name in known},
        {value.name: _maker(graph, value.name) for value in graph.output},
        frozenset(value.name for value in graph.output if not value.type.tensor_type.HasField("shape")),
        {one.key: one.value[:_METADATA_CHARACTERS] for one in model.metadata_props},
    )


def _symbols(value: Any) -> tuple[str, ...]:
    return tuple(str(size.dim_param) for size in value.type.tensor_type.shape.dim)


def _maker(graph: Any, name: str) -> str:
    """Return the operator behind an output, looked for behind what only passes values on."""
    return _walk([graph], name, _STEPS)


def _walk(graphs: list[Any], name: str, steps: int) -> str:
    """Return it by walking back; a branch of an If sees the graphs around it."""
    made = {output: node for graph in graphs for node in graph.node for output in node.output}
    while steps > 0 and name in made:
        node, steps = made[name], steps - 1
        branch = next((one.g for one in node.attribute if one.name == "then_branch"), None)
        if node.op_type == "If" and branch is not None:
            place = list(node.output).index(name)
            if place >= len(branch.output):
                return ""
            return _walk([*graphs, branch], branch.output[place].name, steps)
        passes = node.op_type in _PASSING and node.domain in ("", "ai.onnx")
        following = next((one for one in _values(node.input) if one in made), None) if passes else None
        if following is None:
            return str(node.op_type)
        name = following
    return ""


def _values(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if name)
