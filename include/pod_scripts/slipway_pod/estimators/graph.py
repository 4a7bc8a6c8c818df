"""The converted graph: names for clients, and a free batch dimension."""

from __future__ import annotations

from typing import Any


def tidy(model: Any) -> None:
    """Set names that mean something to a client and a free batch dimension; equal models become equal bytes.

    `variable` is the converters' word for a regressor's output. They name graphs at random, and some declare
    that there is one label whatever the number of rows.
    """
    graph = model.graph
    graph.name = "model"
    if [value.name for value in graph.output] == ["variable"]:
        rename_output(graph, 0, "prediction")
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_param = "rows"


def rename_output(graph: Any, index: int, new: str) -> None:
    """Give a graph's output another name, in the nodes too."""
    old, graph.output[index].name = graph.output[index].name, new
    for node in graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
        node.input[:] = [new if name == old else name for name in node.input]
