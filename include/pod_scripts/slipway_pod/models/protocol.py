"""Answers of an inference server, read from the V2 protocol: JSON, its binary extension, or gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_rules.tensors import NUMPY_TYPES

GRPC_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """One output of an answer, in Triton's words; `values` has `shape`, text as bytes objects."""

    datatype: str
    values: Any

    @property
    def shape(self) -> list[int]:
        """Return its dimensions."""
        return [int(size) for size in self.values.shape]


@dataclass(frozen=True)
class Answer:
    """The answer of one version: outputs by name, or the kind of failure; and its latency."""

    outputs: Mapping[str, Tensor] | None
    failure: str
    latency_ms: float


def read_http_answer(body: bytes, header_length: str | None) -> dict[str, Tensor]:
    """Return the outputs of an HTTP answer, JSON or with binary tensors behind it (the V2 protocol's binary extension).

    Raises whatever reading something else raises.
    """
    end = int(header_length) if header_length else len(body)
    outputs, position = {}, end
    for one in json.loads(body[:end])["outputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        if size is None:
            values = from_list(one["datatype"], one["shape"], one["data"])
        else:
            values = from_raw(one["datatype"], one["shape"], body[position : position + size])
            position += size
        outputs[str(one["name"])] = Tensor(str(one["datatype"]), values)
    return outputs


def read_grpc_answer(body: bytes) -> dict[str, Tensor]:
    """Return the outputs of a ModelInferResponse. Raises whatever reading something else raises."""
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferResponse.FromString(body)
    outputs = {}
    for index, one in enumerate(message.outputs):
        if index < len(message.raw_output_contents):
            values = from_raw(one.datatype, one.shape, message.raw_output_contents[index])
        else:
            values = from_list(
                one.datatype, one.shape, list(getattr(one.contents, GRPC_CONTENTS[one.datatype]))
            )
        outputs[one.name] = Tensor(one.datatype, values)
    return outputs


def from_list(datatype: str, shape: Sequence[int], data: Any) -> Any:
    """Return a tensor's values from JSON or from typed contents."""
    import numpy as np

    if datatype == "BYTES":
        texts = np.empty(len(data), dtype=object)
        texts[:] = [one.encode() if isinstance(one, str) else one for one in data]
        return texts.reshape(list(shape))
    return np.array(data, dtype=NUMPY_TYPES[datatype]).reshape(list(shape))


def from_raw(datatype: str, shape: Sequence[int], raw: bytes) -> Any:
    """Return a tensor's values from its bytes: little-endian numbers, or texts that each follow their length."""
    import numpy as np

    if datatype == "BYTES":
        texts, position = [], 0
        while position < len(raw):
            size = int.from_bytes(raw[position : position + 4], "little")
            texts.append(raw[position + 4 : position + 4 + size])
            position += 4 + size
        return from_list(datatype, shape, texts)
    if datatype == "BF16":
        # BF16 is the upper half of a float32.
        halves = np.frombuffer(raw, dtype="<u2").astype("<u4") << 16
        return halves.view("<f4").reshape(list(shape))
    return np.frombuffer(raw, dtype=NUMPY_TYPES[datatype]).reshape(list(shape))
