"""Golden rows, asked of the live servers by the protocol of their users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slipway.hooks.grpc_live.server import GrpcReply, LiveGrpcServer
from slipway.hooks.ingress import Endpoint
from slipway.hooks.live_server import LiveServerHook, Reply
from slipway.traffic.golden_replay import golden_request
from slipway.traffic.golden_requests.grpc_requests import output_of, unary_body
from slipway_core.errors import ModelInvalidError
from slipway_core.spec.servers.predictor import ServingProtocol
from slipway_core.tensors import ModelSignature

_HEADER_LENGTH = "inference-header-content-length"

LiveServer: TypeAlias = LiveServerHook | LiveGrpcServer


def live_server(protocol: ServingProtocol, endpoint: Endpoint, timeout_s: float) -> LiveServer:
    """Return what asks the live servers by the protocol of their users."""
    return LiveGrpcServer(endpoint, timeout_s) if protocol == "grpc" else LiveServerHook(endpoint, timeout_s)


@dataclass(frozen=True)
class GoldenAnswer:
    """What came of one golden request, by either protocol."""

    reply: Reply | GrpcReply

    @property
    def fault(self) -> str:
        """Why it is an error, as a person reads it; "" if it is not one."""
        reply = self.reply
        if isinstance(reply, GrpcReply):
            return reply.fault
        return "" if reply.status == 200 else _shown(reply)

    @property
    def latency_ms(self) -> float:
        """How long it took."""
        return self.reply.latency_ms

    def output(self, name: str) -> np.ndarray:
        """Return one output.

        :raises ModelInvalidError: the answer has no output of that name, or is invalid.
        """
        reply = self.reply
        found = output_of(reply.body, name) if isinstance(reply, GrpcReply) else _http_output(reply, name)
        if found is None:
            raise ModelInvalidError(
                f"the live version's answer has no output {name!r}",
                expected="the outputs that the manifest names",
                found="none, or not an answer from Triton",
                remedy="check the live server",
            )
        return found


def ask_each(
    server: LiveServer, model: str, signature: ModelSignature, rows: Sequence[Mapping[str, np.ndarray]]
) -> list[GoldenAnswer]:
    """Ask one request after the other; return what came of each.

    :param rows: the inputs of each request.
    :raises ServerUnavailableError: one got no answer within the limit, or a proxy's that there is no server.
    """
    if isinstance(server, LiveGrpcServer):
        bodies = [unary_body(model, signature, inputs) for inputs in rows]
        return [GoldenAnswer(reply) for reply in server.infer_each(bodies)]
    requests = [golden_request(model, signature, dict(inputs)) for inputs in rows]
    posted = server.post_each([(request.path, request.body, request.headers) for request in requests])
    return [GoldenAnswer(reply) for reply in posted]


def _http_output(reply: Reply, name: str) -> np.ndarray | None:
    from tritonclient.http import InferenceServerClient
    from tritonclient.utils import InferenceServerException

    length = reply.headers.get(_HEADER_LENGTH)
    try:
        parsed = InferenceServerClient.parse_response_body(
            reply.body, header_length=None if length is None else int(length)
        )
        found = parsed.as_numpy(name)
    except (ValueError, KeyError, TypeError, AttributeError, InferenceServerException):
        return None
    return None if found is None else np.asarray(found)


def _shown(reply: Reply) -> str:
    return f"HTTP {reply.status}: {reply.body[:200].decode(errors='replace')}"
