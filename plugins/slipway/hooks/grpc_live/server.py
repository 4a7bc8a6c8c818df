"""The live servers of a model, asked over gRPC as its users are; see `LiveServerHook` for the REST protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from slipway.hooks.grpc_live.channel import SERVICE, open_channel
from slipway.hooks.ingress import Endpoint
from slipway_core.errors import ServerUnavailableError

if TYPE_CHECKING:
    import grpc

T = TypeVar("T")

_ANSWER_BYTES_LIMIT = 64 * 1024 * 1024
# What a proxy, or the client itself, says where no server answers in time.
_AWAY = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})
_SHOWN = 300


@dataclass(frozen=True)
class GrpcReply:
    """What came of one request.

    :param body: the answer as it came; empty where it is an error.
    :param fault: the gRPC status and its details; "" where it was OK.
    """

    body: bytes
    fault: str
    latency_ms: float


class LiveGrpcServer:
    """The live servers of one model over gRPC.

    :param endpoint: where to connect, and which authority to ask for.
    :param timeout_s: limit of one request.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint, self._timeout_s = endpoint, timeout_s

    def metadata(self, model: str) -> dict[str, Any]:
        """Return a model's metadata; its `versions` are those that the server has ready.

        :raises ServerUnavailableError: there is no answer, or none of Triton's.
        """
        from tritonclient.grpc import service_pb2

        request = service_pb2.ModelMetadataRequest(name=model).SerializeToString()
        return self._document("ModelMetadata", request, service_pb2.ModelMetadataResponse)

    def config(self, model: str) -> dict[str, Any]:
        """Return the configuration that one of the servers uses; each call is a new connection.

        :raises ServerUnavailableError: there is no answer, or none of Triton's.
        """
        from tritonclient.grpc import service_pb2

        request = service_pb2.ModelConfigRequest(name=model).SerializeToString()
        answered = self._document("ModelConfig", request, service_pb2.ModelConfigResponse)
        found: dict[str, Any] = answered.get("config", {})
        return found

    def infer_each(self, bodies: Sequence[bytes]) -> list[GrpcReply]:
        """Send inference requests, one after the other over one connection; return what came of each.

        :param bodies: each a ModelInferRequest.
        :raises ServerUnavailableError: one got no answer within the limit, or a proxy's that there is no server.
        """

        async def ask(channel: grpc.aio.Channel) -> list[GrpcReply]:
            return [await self._ask(channel, "ModelInfer", body) for body in bodies]

        return self._run(ask)

    def _document(self, method: str, request: bytes, kind: Any) -> dict[str, Any]:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError

        reply = self._run(lambda channel: self._ask(channel, method, request))
        if reply.fault:
            raise self._unavailable(method, reply.fault)
        try:
            message = kind.FromString(reply.body)
            found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
        except (DecodeError, ValueError, RecursionError) as error:
            raise self._unavailable(method, f"{type(error).__name__}: {error}") from error
        return found

    def _run(self, ask: Callable[[grpc.aio.Channel], Awaitable[T]]) -> T:
        async def whole() -> T:
            channel = open_channel(self._endpoint, _ANSWER_BYTES_LIMIT)
            try:
                return await ask(channel)
            finally:
                await channel.close(None)

        return asyncio.run(whole())

    async def _ask(self, channel: grpc.aio.Channel, method: str, body: bytes) -> GrpcReply:
        import grpc

        began = time.perf_counter()
        try:
            answer = await channel.unary_unary(f"{SERVICE}/{method}")(body, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            fault = f"gRPC {error.code().name}: {error.details()}"[:_SHOWN]
            if error.code().name in _AWAY:
                raise self._unavailable(method, fault) from error
            return GrpcReply(b"", fault, 1000.0 * (time.perf_counter() - began))
        return GrpcReply(bytes(answer), "", 1000.0 * (time.perf_counter() - began))

    def _unavailable(self, method: str, found: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"the live server {self._endpoint.host} did not answer {method} over gRPC",
            expected=f"an answer from Triton within {self._timeout_s:g} s",
            found=found,
            remedy="check that its pods are ready and that its port is named h2c (`rollout.protocol: grpc`), and "
            "check the connection `slipway_ingress`",
        )
