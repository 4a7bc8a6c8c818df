"""Arrays as inference requests carry them, and back; the encoding is the client library's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

if TYPE_CHECKING:  # the clients are imported by what uses them: every parse of a DAG would pay for gRPC
    from tritonclient import grpc as triton_grpc

Arrays = dict[str, np.ndarray]
LENGTH_HEADER = "Inference-Header-Content-Length"


def grpc_tensors(
    inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> tuple[list[triton_grpc.InferInput], list[triton_grpc.InferRequestedOutput]]:
    """Return a request's tensors and the outputs wanted in the gRPC client's own form."""
    from tritonclient import grpc as triton_grpc

    wanted = [triton_grpc.InferRequestedOutput(name) for name in outputs]
    return [_filled(triton_grpc.InferInput, name, values) for name, values in inputs.items()], wanted


def http_body(inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """Return the body of a request over HTTP, with the tensors as bytes, and the headers that say so."""
    from tritonclient import http as triton_http

    tensors = [_filled(triton_http.InferInput, name, values) for name, values in inputs.items()]
    wanted = [triton_http.InferRequestedOutput(name, binary_data=True) for name in outputs]
    body, length = triton_http.InferenceServerClient.generate_request_body(tensors, outputs=wanted)
    headers = {"Content-Type": "application/octet-stream"}
    return bytes(body), headers if length is None else {**headers, LENGTH_HEADER: str(length)}


def http_arrays(body: bytes, header_length: str | None, outputs: Sequence[str]) -> Arrays:
    """Return the outputs of an answer over HTTP.

    :raises ValueError: it is no answer, or lacks an output.
    """
    from tritonclient import http as triton_http

    length = None if header_length is None else int(header_length)
    try:
        answer = triton_http.InferenceServerClient.parse_response_body(body, header_length=length)
        return arrays_of(answer, outputs)
    except (KeyError, TypeError, AttributeError, RecursionError, InferenceServerException) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def arrays_of(answer: Any, outputs: Sequence[str]) -> Arrays:
    """Return the wanted outputs of a client's result.

    :raises ValueError: one is missing.
    """
    found = {name: answer.as_numpy(name) for name in outputs}
    missing = [name for name, values in found.items() if values is None]
    if missing:
        raise ValueError(f"the answer has no output {', '.join(missing)}")
    return found


def _filled(kind: Any, name: str, values: np.ndarray) -> Any:
    tensor = kind(name, list(values.shape), np_to_triton_dtype(values.dtype))
    tensor.set_data_from_numpy(np.ascontiguousarray(values))
    return tensor
