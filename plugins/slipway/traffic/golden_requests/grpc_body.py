"""One golden row as Triton's ModelInferRequest, for single calls and for streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slipway_core.tensors import TensorSpec


def grpc_body(
    model: str, inputs: Sequence[TensorSpec], arrays: Mapping[str, np.ndarray], *, is_streamed: bool = True
) -> bytes:
    """Return a request as it goes over gRPC; no version, since each revision serves one.

    :param is_streamed: it goes over a stream, whose end the server is to mark.
    """
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name=model, id="1")
    if is_streamed:
        request.parameters["triton_enable_empty_final_response"].bool_param = True
    for spec in (one for one in inputs if one.name in arrays):
        values = np.ascontiguousarray(arrays[spec.name])
        request.inputs.add(name=spec.name, datatype=spec.datatype, shape=values.shape)
        request.raw_input_contents.append(_raw(spec.datatype, values))
    return bytes(request.SerializeToString())


def _raw(datatype: str, values: np.ndarray) -> bytes:
    from tritonclient.utils import serialize_byte_tensor, triton_to_np_dtype

    if datatype == "BYTES":
        serialized = serialize_byte_tensor(values.astype(object))
        return bytes(serialized.item()) if serialized.size else b""
    if datatype == "BF16":  # the upper half of a single
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype(triton_to_np_dtype(datatype), copy=False).tobytes()
