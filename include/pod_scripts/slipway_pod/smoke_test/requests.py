"""Requests of the V2 protocol, made tensor by tensor, so that they may also be wrong; sent over gRPC or HTTP."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_pod.models.protocol import Tensor, read_grpc_answer, read_http_answer
from slipway_pod.smoke_test.server import HOST, LINE_CHARACTERS, OwnServer

# Triton's own are 64 MiB and more; a golden row of a picture is larger than gRPC's 4 MiB.
MESSAGE_BYTES = 2**31 - 1
# gRPC's codes for "no answer came". Any other code is an error that the server reported.
SILENCE = ("UNAVAILABLE", "CANCELLED")
LATE = "DEADLINE_EXCEEDED"
LENGTH_HEADER = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class WireTensor:
    """An input as it is sent: what it is said to be, and its bytes."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes


@dataclass(frozen=True)
class Answered:
    """What came of a request.

    :ivar outcome: `answered`; `refused`: the server reported an error; `timed out`: nothing came within the limit; or
        `silent`: the connection ended, or what came cannot be read.
    :ivar unheard: nothing is known of the model's answer: the time was up, or the server had no place for the request.
    """

    outcome: str
    message: str
    ms: float
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    unheard: bool = False


def wire(name: str, datatype: str, array: Any) -> WireTensor:
    """Return an array as it is sent."""
    import numpy as np

    if datatype == "BYTES":
        texts = [one.encode() if isinstance(one, str) else bytes(one) for one in np.asarray(array).flat]
        raw = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    else:
        raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return WireTensor(name, datatype, tuple(int(size) for size in array.shape), raw)


class Asker:
    """Asks one model on one server. A context manager: its gRPC channel is closed at the end.

    :param timeout_s: limit of an answer.
    :param left_s: returns how much time is left for all of it, which no answer may exceed.
    """

    def __init__(
        self, server: OwnServer, model: str, timeout_s: float, left_s: Callable[[], float] = lambda: math.inf
    ) -> None:
        """Open the channel; the first request shall not pay for that."""
        import grpc
        from tritonclient.grpc import service_pb2_grpc

        self._server, self._model, self._timeout_s, self._left_s = server, model, timeout_s, left_s
        sizes = [
            ("grpc.max_send_message_length", MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ]
        self._channel = grpc.insecure_channel(f"{HOST}:{server.grpc_port}", options=sizes)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        # A server that has died meanwhile is noticed by the first request.
        with contextlib.suppress(grpc.FutureTimeoutError):
            grpc.channel_ready_future(self._channel).result(timeout_s)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def ask(self, tensors: Sequence[WireTensor]) -> Answered:
        """Ask over gRPC."""
        began = time.monotonic()
        return self._gathered(self._future(self._message(tensors)), began)

    def ask_all(
        self, requests: Iterable[Sequence[WireTensor]], limit_s: float | None = None
    ) -> list[Answered]:
        """Ask over gRPC, all at once.

        :param limit_s: of each answer, instead of the asker's.
        """
        began = time.monotonic()
        futures = [self._future(self._message(tensors), limit_s) for tensors in requests]
        return [self._gathered(future, began) for future in futures]

    def ask_bytes(self, body: bytes) -> Answered:
        """Send bytes over gRPC in the place of a request."""
        call = self._channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        began = time.monotonic()
        return self._gathered(call.future(body, timeout=self._limit_s()), began, parsed=False)

    def ask_http(self, tensors: Sequence[WireTensor]) -> Answered:
        """Ask over HTTP, with binary tensors."""
        header = {
            "inputs": [
                {
                    "name": one.name,
                    "datatype": one.datatype,
                    "shape": list(one.shape),
                    "parameters": {"binary_data_size": len(one.raw)},
                }
                for one in tensors
            ],
            "parameters": {"binary_data_output": True},
        }
        head = json.dumps(header).encode()
        body = head + b"".join(one.raw for one in tensors)
        return self.post(body, {LENGTH_HEADER: str(len(head))})

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answered:
        """Send bytes over HTTP as a request."""
        began, limit_s = time.monotonic(), self._limit_s()
        try:
            reply = self._server.call(
                "POST", f"/v2/models/{self._model}/infer", body, headers, timeout_s=limit_s
            )
        except TimeoutError:
            message = f"HTTP: no answer within {limit_s:g} s"
            return Answered("timed out", message, _ms(began), unheard=True)
        except OSError as error:
            return Answered("silent", f"HTTP: {type(error).__name__}", _ms(began), unheard=True)
        if reply.status != 200:
            return Answered("refused", f"HTTP {reply.status}: {reply.error}", _ms(began))
        try:
            outputs = read_http_answer(reply.body, reply.headers.get(LENGTH_HEADER))
        except Exception as error:  # whatever it is, it was no answer
            return Answered("silent", f"HTTP 200 that cannot be read: {type(error).__name__}", _ms(began))
        return Answered("answered", "HTTP 200", _ms(began), outputs)

    def _message(self, tensors: Sequence[WireTensor]) -> Any:
        from tritonclient.grpc import service_pb2

        message = service_pb2.ModelInferRequest(model_name=self._model)
        for one in tensors:
            message.inputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
            message.raw_input_contents.append(one.raw)
        return message

    def _future(self, message: Any, limit_s: float | None = None) -> Any:
        return self._stub.ModelInfer.future(message, timeout=self._limit_s(limit_s))

    def _limit_s(self, limit_s: float | None = None) -> float:
        return min(self._timeout_s if limit_s is None else limit_s, max(1.0, self._left_s()))

    def _gathered(self, future: Any, began: float, *, parsed: bool = True) -> Answered:
        import grpc

        try:
            message = future.result()
        except grpc.RpcError as error:
            code: Any = error
            name = str(code.code().name)
            message = f"gRPC {name}: {code.details() or ''}"[:LINE_CHARACTERS]
            if name == LATE:
                return Answered("timed out", message, _ms(began), unheard=True)
            is_silent = name in SILENCE
            return Answered("silent" if is_silent else "refused", message, _ms(began), unheard=is_silent)
        body = message.SerializeToString() if parsed else bytes(message)
        try:
            return Answered("answered", "gRPC OK", _ms(began), read_grpc_answer(body))
        except Exception as error:  # whatever it is, it was no answer
            return Answered("silent", f"gRPC OK that cannot be read: {type(error).__name__}", _ms(began))


def _ms(began: float) -> float:
    return 1000 * (time.monotonic() - began)


def difference(first: Answered, other: Answered, abs_tolerance: float, rel_tolerance: float) -> str:
    """Return in words in what two answers differ beyond the tolerances; empty if they do not."""
    import numpy as np

    if other.outcome != "answered":
        return f"no answer: {other.message}"
    if first.outputs.keys() != other.outputs.keys():
        return "other outputs"
    for name, one in first.outputs.items():
        a, b = np.asarray(one.values), np.asarray(other.outputs[name].values)
        if a.shape != b.shape or one.datatype != other.outputs[name].datatype:
            return f"output {name}: another shape or type"
        if a.dtype.kind == "O":
            if not np.array_equal(a, b):
                return f"output {name}: another text"
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        if not np.allclose(y, x, rtol=rel_tolerance, atol=abs_tolerance, equal_nan=True):
            with np.errstate(invalid="ignore"):
                return f"output {name}: off by {float(np.nanmax(np.abs(x - y))):.3g}"
    return ""
