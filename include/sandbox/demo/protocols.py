"""One request over either protocol, told apart to the last detail: which version, which revision, what error.

tritonclient writes the request and reads the answer; the transport under it is plain, since its clients
keep the response headers to themselves, and the header that names the revision is what tells whose
failure a failure was. Nothing here ever tries a request again.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import grpc  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc

REVISION_HEADER = "x-slipway-revision"
"""The router's response header that names the revision it sent the request to."""

_ERROR_CHARS = 300


@dataclass(frozen=True)
class Answer:
    """What came back for one image: the digit and the version that named it, or an `error` in words.

    `revision`: who was asked, by the router's own word; None where no revision was reached.
    """

    revision: str | None
    version: str | None = None
    digit: int | None = None
    error: str | None = None


class DigitsClient(Protocol):
    """Sends one image and waits for the answer. Not to be shared between threads."""

    protocol: str

    def ask(self, pixels: npt.NDArray[np.float32]) -> Answer:
        """Ask about `pixels` FP32 [64]; a failure of any kind is an `Answer` with an `error`."""

    def close(self) -> None:
        """Let go of the connection."""


class HttpDigitsClient:
    """The KServe v2 protocol over HTTP, one connection kept open, the service named by the Host header."""

    protocol = "http"

    def __init__(self, host: str, port: int, authority: str, model: str, timeout_s: float) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self._headers = {"Host": authority, "Content-Type": "application/octet-stream"}
        self._path = f"/v2/models/{model}/infer"

    def ask(self, pixels: npt.NDArray[np.float32]) -> Answer:
        """One POST; a broken connection is opened anew by the next call, never by this one."""
        body, json_size = _http_body(pixels)
        headers = {**self._headers, "Inference-Header-Content-Length": str(json_size)}
        try:
            self._connection.request("POST", self._path, body=body, headers=headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return Answer(None, error=f"{type(error).__name__}: {error}"[:_ERROR_CHARS])
        revision = response.headers.get(REVISION_HEADER)
        if response.status != http.client.OK:
            text = content.decode(errors="replace")[:_ERROR_CHARS]
            return Answer(revision, error=f"HTTP {response.status}: {text}")
        return _http_answer(revision, content, response.headers.get("Inference-Header-Content-Length"))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class GrpcDigitsClient:
    """The KServe v2 protocol over gRPC, the service named by the channel's authority."""

    protocol = "grpc"

    def __init__(self, host: str, port: int, authority: str, model: str, timeout_s: float) -> None:
        options = [
            ("grpc.default_authority", authority),
            # gRPC would send some requests a second time by itself; then a failure would go unseen.
            ("grpc.enable_retries", 0),
            # Channels of one process share a connection otherwise.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=options)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._model = model
        self._timeout_s = timeout_s

    def ask(self, pixels: npt.NDArray[np.float32]) -> Answer:
        """One ModelInfer call."""
        try:
            response, call = self._stub.ModelInfer.with_call(
                self._request(pixels), timeout=self._timeout_s, wait_for_ready=False
            )
        except grpc.RpcError as error:
            # What grpc raises is also the call, with its metadata; the base class does not say so.
            failed = cast("grpc.Call", error)
            text = f"{failed.code().name}: {failed.details()}"[:_ERROR_CHARS]
            # An answer without a body carries all its headers as trailers.
            headers = [*(failed.initial_metadata() or ()), *(failed.trailing_metadata() or ())]
            return Answer(_revision(headers), error=text)
        label = np.frombuffer(response.raw_output_contents[0], dtype=np.int64)
        return Answer(_revision(call.initial_metadata()), response.model_version, int(label[0]))

    def _request(self, pixels: npt.NDArray[np.float32]) -> Any:
        tensor = service_pb2.ModelInferRequest.InferInputTensor(
            name="pixels", datatype="FP32", shape=[1, pixels.size]
        )
        return service_pb2.ModelInferRequest(
            model_name=self._model,
            inputs=[tensor],
            outputs=[service_pb2.ModelInferRequest.InferRequestedOutputTensor(name="label")],
            raw_input_contents=[pixels.astype(np.float32).tobytes()],
        )

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def _http_body(pixels: npt.NDArray[np.float32]) -> tuple[bytes, int]:
    tensor = tritonclient.http.InferInput("pixels", [1, pixels.size], "FP32")
    tensor.set_data_from_numpy(pixels.reshape(1, -1).astype(np.float32))
    label = tritonclient.http.InferRequestedOutput("label")
    body, json_size = tritonclient.http.InferenceServerClient.generate_request_body([tensor], outputs=[label])
    return body, json_size


def _http_answer(revision: str | None, content: bytes, header_length: str | None) -> Answer:
    try:
        result = tritonclient.http.InferenceServerClient.parse_response_body(
            content, header_length=int(header_length) if header_length else None
        )
        document = result.get_response()
        digit = int(result.as_numpy("label").ravel()[0])
    except (json.JSONDecodeError, AttributeError, IndexError, KeyError, ValueError) as error:
        return Answer(revision, error=f"unreadable answer: {type(error).__name__}: {error}"[:_ERROR_CHARS])
    return Answer(revision, str(document.get("model_version")), digit)


def _revision(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    for name, value in metadata:
        if name == REVISION_HEADER:
            return value.decode() if isinstance(value, bytes) else value
    return None
