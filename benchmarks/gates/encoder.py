"""A sentence encoder: MiniLM's published weights in a graph that is written here, and sentences of twelve topics."""

from __future__ import annotations

import json
import struct
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gates.subject import Arrays, Subject, chosen
from benchmarks.gates.wheels import wheel_file
from slipway_core.gates.validation.kinds.vectors import VectorsValidation

Array = NDArray[Any]

_LAYERS, _SIZE, _HEADS, _TOKENS = 6, 384, 12, 16
_TOPICS = {
    "cat": ("The cat sleeps on the sofa", "A kitten plays with wool", "My cat eats fish"),
    "rain": ("It rains all day long", "Take an umbrella, it is wet", "Heavy showers fall tonight"),
    "bread": (
        "She bakes bread every morning",
        "The bakery sells fresh rolls",
        "Flour and yeast make a dough",
    ),
    "train": ("The train leaves at nine", "Our railway station is old", "A delayed train annoys travellers"),
    "bank": ("I opened a bank account", "The interest rate on loans rose", "He paid by credit card"),
    "music": ("She plays the violin well", "The orchestra gives a concert", "A new song is on the radio"),
    "football": ("The team scored two goals", "A goalkeeper stopped the ball", "They won the football match"),
    "doctor": ("The doctor wrote a prescription", "The patient has a fever", "A nurse works in the hospital"),
    "code": (
        "The program crashed with an error",
        "He writes software in Python",
        "A bug in the code was fixed",
    ),
    "space": ("The rocket flew to the moon", "Astronomers found a new planet", "A telescope looks at stars"),
    "garden": ("Roses grow in the garden", "He waters the plants", "The lawn must be mown"),
    "school": ("The pupils write a test", "Our teacher explains history", "Children learn at school"),
}


def encoder() -> Subject:
    """Return all-MiniLM-L6-v2 with golden sentences; rows with the same label are of one topic."""
    model = _graph(_tensors(wheel_file("model.safetensors")))
    ids, mask, labels = _sentences()

    def golden(seed: int) -> Arrays:
        rows = chosen(seed, labels, 60)
        return {"input_ids": ids[rows], "attention_mask": mask[rows], "label": labels[rows]}

    return Subject(
        "minilm",
        model,
        VectorsValidation(),
        golden,
        "input_ids",
        "INT64",
        _SIZE,
        _TOKENS,
        "int64",
        swappable=("input_ids", "attention_mask"),
    )


@cache
def _sentences() -> tuple[Array, Array, Array]:
    vocabulary = json.loads(wheel_file("tokenizer.json"))["model"]["vocab"]
    texts, labels = [], []
    for label, sentences in enumerate(_TOPICS.values()):
        for sentence in sentences:
            texts += [sentence, f"{sentence} today", f"I think that {sentence[0].lower()}{sentence[1:]}"]
            labels += [label] * 3
    ids = np.zeros((len(texts), _TOKENS), np.int64)
    for row, text in enumerate(texts):
        pieces = [vocabulary["[CLS]"], *_pieces(text, vocabulary)[: _TOKENS - 2], vocabulary["[SEP]"]]
        ids[row, : len(pieces)] = pieces
    return ids, (ids > 0).astype(np.int64), np.asarray(labels)


def _pieces(text: str, vocabulary: dict[str, int]) -> list[int]:
    """Return a text's word pieces: of each word the longest known beginning, again and again."""
    found = []
    for word in text.lower().replace(",", " ,").split():
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
            end = next(ends, 0)
            if not end:
                found.append(vocabulary["[UNK]"])
                break
            found.append(vocabulary[mark + word[start:end]])
            start = end
    return found


def _tensors(content: bytes) -> dict[str, Array]:
    """Return the tensors of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    types = {"F32": np.float32, "I64": np.int64}
    data = content[8 + size :]

    def tensor(one: dict[str, Any]) -> Array:
        count = int(np.prod(one["shape"]))
        values: Array = np.frombuffer(data, types[one["dtype"]], count=count, offset=one["data_offsets"][0])
        return values.reshape(one["shape"])

    return {
        name: tensor(one) for name, one in header.items() if name != "__metadata__" and one["dtype"] in types
    }


class _Graph:
    """Nodes and weights, as they are added."""

    def __init__(self, tensors: dict[str, Array]) -> None:
        self.tensors, self.nodes, self.weights, self._count = tensors, [], [], 0

    def weight(self, values: Array, name: str = "") -> str:
        """Add a constant; return its name."""
        self._count += 1
        name = name or f"c{self._count}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of what it gives."""
        self._count += 1
        name = f"t{self._count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, value: str, name: str) -> str:
        """Add a layer of the model."""
        kernel = self.weight(self.tensors[f"{name}.weight"].T, f"{name}.weight")
        return self.add("Add", self.add("MatMul", value, kernel), self.weight(self.tensors[f"{name}.bias"]))

    def normal(self, value: str, name: str) -> str:
        """Add a layer normalisation."""
        scale, bias = (self.weight(self.tensors[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.add("LayerNormalization", value, scale, bias, epsilon=1e-12)

    def heads(self, value: str, order: list[int]) -> str:
        """Part a value into heads."""
        shape = self.weight(np.asarray([0, 0, _HEADS, _SIZE // _HEADS]))
        return self.add("Transpose", self.add("Reshape", value, shape), perm=order)


def _graph(tensors: dict[str, Array]) -> onnx.ModelProto:
    """Return BERT's encoder with mean pooling, as Hugging Face's modules reckon."""
    graph = _Graph(tensors)
    embeddings = "embeddings"
    words = graph.add("Gather", graph.weight(tensors[f"{embeddings}.word_embeddings.weight"]), "input_ids")
    places = tensors[f"{embeddings}.position_embeddings.weight"][None, :_TOKENS]
    kinds = tensors[f"{embeddings}.token_type_embeddings.weight"][0]
    value = graph.add("Add", words, graph.weight(places + kinds))
    value = graph.normal(value, f"{embeddings}.LayerNorm")
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    wide = graph.add("Unsqueeze", mask, graph.weight(np.asarray([1, 2])))
    hidden = graph.add(
        "Mul", graph.add("Sub", graph.weight(np.float32(1)), wide), graph.weight(np.float32(-1e4))
    )
    for number in range(_LAYERS):
        value = _layer(graph, value, hidden, f"encoder.layer.{number}")
    column = graph.add("Unsqueeze", mask, graph.weight(np.asarray([2])))
    rows = graph.weight(np.asarray([1]))
    total = graph.add("ReduceSum", graph.add("Mul", value, column), rows, keepdims=0)
    count = graph.add("Max", graph.add("ReduceSum", column, rows, keepdims=0), graph.weight(np.float32(1e-9)))
    graph.nodes.append(
        helper.make_node("LpNormalization", [graph.add("Div", total, count)], ["embedding"], axis=1, p=2)
    )
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", _TOKENS])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", _SIZE])
    made = helper.make_graph(graph.nodes, "minilm", inputs, [output], graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _layer(graph: _Graph, value: str, hidden: str, name: str) -> str:
    query, key, content = (
        graph.linear(value, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
    )
    near = graph.add("MatMul", graph.heads(query, [0, 2, 1, 3]), graph.heads(key, [0, 2, 3, 1]))
    scale = graph.weight(np.float32((_SIZE // _HEADS) ** 0.5))
    shares = graph.add("Softmax", graph.add("Add", graph.add("Div", near, scale), hidden), axis=-1)
    seen = graph.add(
        "Transpose", graph.add("MatMul", shares, graph.heads(content, [0, 2, 1, 3])), perm=[0, 2, 1, 3]
    )
    seen = graph.add("Reshape", seen, graph.weight(np.asarray([0, 0, _SIZE])))
    attended = graph.add("Add", graph.linear(seen, f"{name}.attention.output.dense"), value)
    attended = graph.normal(attended, f"{name}.attention.output.LayerNorm")
    wide = graph.linear(attended, f"{name}.intermediate.dense")
    bent = graph.add("Erf", graph.add("Div", wide, graph.weight(np.float32(2**0.5))))
    half = graph.add("Mul", wide, graph.weight(np.float32(0.5)))
    active = graph.add("Mul", half, graph.add("Add", bent, graph.weight(np.float32(1))))
    back = graph.add("Add", graph.linear(active, f"{name}.output.dense"), attended)
    return graph.normal(back, f"{name}.output.LayerNorm")
