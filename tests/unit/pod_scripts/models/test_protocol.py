"""How an inference server's answers are read: JSON, binary tensors, gRPC."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from tritonclient.grpc import service_pb2

from slipway_pod.models.protocol import from_raw, read_grpc_answer, read_http_answer

_FLOATS = st_numpy.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 4)))


@given(values=_FLOATS)
def test_json_and_binary_answers_read_alike(values: Any) -> None:
    """Two outputs are the same values whether they come as JSON, as binary over HTTP, or by gRPC."""
    shape, negated = list(values.shape), -values
    arrays = {"y": values, "z": negated}
    heads = [{"name": name, "datatype": "FP32", "shape": shape} for name in arrays]
    listed = [[float(one) for one in array.reshape(-1)] for array in arrays.values()]
    plain = json.dumps(
        {"outputs": [{**head, "data": data} for head, data in zip(heads, listed, strict=True)]}
    ).encode()
    sized = {"parameters": {"binary_data_size": values.nbytes}}
    binary = json.dumps({"outputs": [{**head, **sized} for head in heads]}).encode()
    raw = [array.tobytes() for array in arrays.values()]
    message = service_pb2.ModelInferResponse(raw_output_contents=raw)
    for head in heads:
        message.outputs.add(**head)
    read = [
        read_http_answer(plain, None),
        read_http_answer(binary + b"".join(raw), str(len(binary))),
        read_grpc_answer(message.SerializeToString()),
    ]
    for outputs in read:
        assert outputs.keys() == arrays.keys()
        for name, array in arrays.items():
            assert outputs[name].shape == shape
            np.testing.assert_array_equal(outputs[name].values, array)


def test_texts_and_bfloat16_are_read() -> None:
    """Binary texts follow their lengths, typed contents have their field, and BF16 is half of a float."""
    raw = b"".join(len(text).to_bytes(4, "little") + text for text in (b"ab", b"", b"c"))
    assert from_raw("BYTES", [3], raw).tolist() == [b"ab", b"", b"c"]
    halves = (np.array([1.5, -2.0], np.float32).view(np.uint32) >> 16).astype("<u2")
    assert from_raw("BF16", [2], halves.tobytes()).tolist() == [1.5, -2.0]
    message = service_pb2.ModelInferResponse()
    message.outputs.add(name="y", datatype="INT64", shape=[2]).contents.int64_contents.extend([4, 5])
    assert read_grpc_answer(message.SerializeToString())["y"].values.tolist() == [4, 5]
