"""One request over HTTP or gRPC, and exactly what came of it: which version, which revision, what error.

tritonclient writes the request and reads the answer. The transport under it is plain, since its clients keep the
response headers to themselves, and the header that names the revision tells whose failure a failure was. Nothing here
ever tries a request again.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import grpc  # type: ignore[import-untyped]
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc

from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.load.request_set import RequestSet
from slipway_sandbox.services.envoy_config import REVISION_HEADER

PROTOCOLS = ("http", "grpc")
REQUEST_TIMEOUT_S = 10.0
RECONNECT_S = 0.5
"""How long after a router is back every connection of the clients is, at the latest."""

CHANNEL_OPTIONS = (
    # gRPC would send some requests a second time by itself; then a failure would go unseen.
    ("grpc.enable_retries", 0),
    # Channels of one process share a connection otherwise.
    ("grpc.use_local_subchannel_pool", 1),
    # The default pauses for seconds, in which requests fail though the router is back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)
"""Of every gRPC channel of clients that are measured."""

_CHANNELS = 2
_ERROR_CHARS = 300
_JSON_SIZE_HEADER = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class Outcome:
    """What came back for one request.

    `revision` is who was asked, by the router's own word; None if no revision was reached. `version` and `value`
    (the first value of the output) are those of a good answer, which has no `error`.
    """

    revision: str | None
    version: str | None = None
    value: float | None = None
    error: str | None = None


class Client(Protocol):
    """Asks a model over one protocol; may be asked while it asks."""

    protocol: str

    async def ask(self, row: int) -> Outcome:
        """Send the request of that row; a failure of any kind is an outcome with an error."""


class HttpClient:
    """The KServe v2 protocol over HTTP, the service named by the Host header."""

    protocol = "http"

    def __init__(
        self, session: aiohttp.ClientSession, port: int, authority: str, model: str, requests: RequestSet
    ) -> None:
        self._session = session
        self._url = f"http://{LOOPBACK}:{port}/v2/models/{model}/infer"
        self._headers = {"Host": authority, "Content-Type": "application/octet-stream"}
        self._output_name = requests.output_name
        self._bodies = [_http_body(requests, row) for row in range(len(requests))]

    async def ask(self, row: int) -> Outcome:
        """Send one POST, on a connection that is kept open."""
        body, json_size = self._bodies[row]
        headers = {**self._headers, _JSON_SIZE_HEADER: str(json_size)}
        try:
            async with self._session.post(self._url, data=body, headers=headers) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Outcome(None, error=f"{type(error).__name__}: {error}"[:_ERROR_CHARS])
        revision = response.headers.get(REVISION_HEADER)
        if response.status != 200:
            text = content.decode(errors="replace")
            return Outcome(revision, error=f"HTTP {response.status}: {text}"[:_ERROR_CHARS])
        return self._read(revision, content, response.headers.get(_JSON_SIZE_HEADER))

    def _read(self, revision: str | None, content: bytes, json_size: str | None) -> Outcome:
        try:
            result = tritonclient.http.InferenceServerClient.parse_response_body(
                content, header_length=int(json_size) if json_size else None
            )
            version = str(result.get_response().get("model_version"))
            value = float(result.as_numpy(self._output_name).ravel()[0])
        except (json.JSONDecodeError, AttributeError, IndexError, KeyError, ValueError) as error:
            return Outcome(
                revision, error=f"unreadable answer: {type(error).__name__}: {error}"[:_ERROR_CHARS]
            )
        return Outcome(revision, version, value)


class GrpcClient:
    """The KServe v2 protocol over gRPC, the service named by the channels' authority."""

    protocol = "grpc"

    def __init__(self, channels: Sequence[Any], model: str, requests: RequestSet) -> None:
        stubs = [service_pb2_grpc.GRPCInferenceServiceStub(channel) for channel in channels]
        self._stubs = itertools.cycle(stubs)
        self._output_name = requests.output_name
        self._requests = [grpc_request(model, requests, row) for row in range(len(requests))]

    async def ask(self, row: int) -> Outcome:
        """Make one ModelInfer call."""
        call = next(self._stubs).ModelInfer(
            self._requests[row], timeout=REQUEST_TIMEOUT_S, wait_for_ready=False
        )
        try:
            response = await call
        except grpc.aio.AioRpcError as error:
            text = f"{error.code().name}: {error.details()}"[:_ERROR_CHARS]
            # An answer without a body carries all its headers as trailers.
            headers = [*(error.initial_metadata() or ()), *(error.trailing_metadata() or ())]
            return Outcome(revision_in(headers), error=text)
        revision = revision_in(await call.initial_metadata())
        try:
            value = float(tritonclient.grpc.InferResult(response).as_numpy(self._output_name).ravel()[0])
        except (AttributeError, IndexError, ValueError) as error:
            return Outcome(
                revision, error=f"unreadable answer: {type(error).__name__}: {error}"[:_ERROR_CHARS]
            )
        return Outcome(revision, response.model_version, value)


@contextlib.asynccontextmanager
async def clients(
    port: int, authority: str, model: str, requests: RequestSet, protocols: Collection[str] = PROTOCOLS
) -> AsyncIterator[list[Client]]:
    """Give a client for each of `protocols`, through the router's port; `authority` names the InferenceService."""
    options = [("grpc.default_authority", authority), *CHANNEL_OPTIONS]
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
                connector=aiohttp.TCPConnector(limit=0),
            )
        )
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(f"{LOOPBACK}:{port}", options=options))
            for _ in range(_CHANNELS)
        ]
        over_each: list[Client] = [
            HttpClient(session, port, authority, model, requests),
            GrpcClient(channels, model, requests),
        ]
        yield [client for client in over_each if client.protocol in protocols]


def _http_body(requests: RequestSet, row: int) -> tuple[bytes, int]:
    """Return the body of a request, and how many bytes of it are JSON."""
    tensor = tritonclient.http.InferInput(requests.input_name, list(requests.rows[row].shape), "FP32")
    tensor.set_data_from_numpy(requests.rows[row])
    output = tritonclient.http.InferRequestedOutput(requests.output_name)
    body, json_size = tritonclient.http.InferenceServerClient.generate_request_body(
        [tensor], outputs=[output]
    )
    return body, json_size


def grpc_request(model: str, requests: RequestSet, row: int) -> Any:
    """Return one request of the model, unary or on a stream."""
    tensor = service_pb2.ModelInferRequest.InferInputTensor(
        name=requests.input_name, datatype="FP32", shape=requests.rows[row].shape
    )
    output = service_pb2.ModelInferRequest.InferRequestedOutputTensor(name=requests.output_name)
    return service_pb2.ModelInferRequest(
        model_name=model,
        inputs=[tensor],
        outputs=[output],
        raw_input_contents=[requests.rows[row].tobytes()],
    )


def revision_in(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Return the revision that the router names in an answer's headers; None if it names none."""
    for name, value in metadata:
        if name == REVISION_HEADER:
            return value.decode() if isinstance(value, bytes) else value
    return None
