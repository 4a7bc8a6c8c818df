"""One golden row as a ModelInferRequest, and what its answer holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from slipway.hooks.grpc_live.channel import SERVICE, open_channel
from slipway.hooks.ingress import Endpoint
from slipway.traffic.golden_requests.grpc_body import grpc_body
from slipway_core.tensors import ModelSignature

if TYPE_CHECKING:
    import grpc

_ANSWER_BYTES_LIMIT = 64 * 1024 * 1024


def unary_body(model: str, signature: ModelSignature, inputs: Mapping[str, np.ndarray]) -> bytes:
    """Return the request for these inputs; no version, since each revision serves one."""
    return grpc_body(model, signature.inputs, inputs, is_streamed=False)


def output_of(body: bytes, name: str) -> np.ndarray | None:
    """Return one output of an answer; None: it holds none of that name, or is no answer."""
    from google.protobuf.message import DecodeError
    from tritonclient.grpc import InferResult, service_pb2
    from tritonclient.utils import InferenceServerException

    try:
        found = InferResult(service_pb2.ModelInferResponse.FromString(body)).as_numpy(name)
    except (DecodeError, ValueError, KeyError, TypeError, IndexError, InferenceServerException):
        return None
    return None if found is None else np.asarray(found)


class GrpcAsker:
    """Asks revisions over gRPC; to be made and closed in the event loop that asks."""

    def __init__(self) -> None:
        self._channels: dict[Endpoint, grpc.aio.Channel] = {}

    async def is_answered(
        self, endpoint: Endpoint, body: bytes, outputs: Sequence[str], limit_s: float
    ) -> bool:
        """Send one request; return whether an answer within the limit holds every output that is wanted."""
        import grpc

        if endpoint not in self._channels:
            self._channels[endpoint] = open_channel(endpoint, _ANSWER_BYTES_LIMIT)
        call = self._channels[endpoint].unary_unary(f"{SERVICE}/ModelInfer")
        try:
            answer = await call(body, timeout=limit_s)
        except grpc.aio.AioRpcError:
            return False
        return _names(answer) >= {*outputs}

    async def close(self) -> None:
        """Give back what connects it."""
        for channel in self._channels.values():
            await channel.close(None)


def _names(body: bytes) -> set[str]:
    from google.protobuf.message import DecodeError
    from tritonclient.grpc import service_pb2

    try:
        return {one.name for one in service_pb2.ModelInferResponse.FromString(body).outputs}
    except DecodeError:
        return set()
