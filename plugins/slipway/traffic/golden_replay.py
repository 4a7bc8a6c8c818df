"""Golden requests to the revisions' own URLs, where users send too little to judge a candidate by."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import aiohttp
import numpy as np

from include.model_release.errors import SlipwayError, UserError
from include.model_release.gates.validation.request_options import is_decoupled
from include.model_release.metrics.samples import Sample, Window
from include.model_release.spec.rollout.golden_replay import GoldenReplaySettings
from include.model_release.tensors import ModelSignature
from slipway.blocking_calls import BlockingCalls
from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.golden_requests.grpc_requests import GrpcAsker, unary_body

log = logging.getLogger(__name__)

# Upper bounds of the histogram's buckets, the same for both revisions.
LATENCY_BOUNDS_MS = (
    *(1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0),
    *(1000.0, 2000.0, 5000.0, 10000.0, math.inf),
)
_HEADER_LENGTH = "Inference-Header-Content-Length"
# The golden set may be large; some of it says as much about latency, and what it all says validation has said.
_ROWS_LIMIT, _BYTES_LIMIT = 256, 32 * 1024 * 1024
_ANSWER_BYTES_LIMIT = 64 * 1024 * 1024
# The golden set is read once; a store that takes longer is asked again.
_LOAD_LIMIT_S = 600.0
_LOOK_UP_LIMIT_S = 30.0


@dataclass(frozen=True)
class GoldenRequest:
    """One golden row as the body of a V2 request, and the outputs that must come back.

    :param path: that of the REST call; "" for gRPC.
    """

    path: str
    body: bytes
    header_length: int | None
    outputs: tuple[str, ...]

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request, less the host."""
        binary = {} if self.header_length is None else {_HEADER_LENGTH: str(self.header_length)}
        return {"Content-Type": "application/octet-stream", **binary}


@dataclass
class Tally:
    """What one revision answered, as the replayer saw it."""

    requests: int = 0
    errors: int = 0
    buckets: Counter[float] = field(default_factory=Counter)

    def add(self, latency_ms: float, good: bool) -> None:
        """Counts one answer, or that there was none."""
        self.requests += 1
        self.errors += not good
        self.buckets[LATENCY_BOUNDS_MS[bisect_left(LATENCY_BOUNDS_MS, latency_ms)]] += 1

    def sample(self) -> Sample:
        """The counts; all buckets are there, so that windows can be compared."""
        return Sample(self.requests, self.errors, {bound: self.buckets[bound] for bound in LATENCY_BOUNDS_MS})


class GoldenReplay:
    """Replays one release's golden requests to candidate and stable in turn.

    It blocks no event loop: what reads the store, looks up connections or builds requests runs in a thread.

    :param ingress: the way to the revisions' hosts.

    `obstacle` says why the last attempt replayed nothing, "" where it did.
    """

    def __init__(self, release_run: ReleaseRun, registry: ModelRegistry, ingress: IngressHook) -> None:
        self._release_run, self._registry, self._ingress = release_run, registry, ingress
        self._settings = release_run.spec.rollout.golden_replay
        self._store = BlockingCalls("the object store, for golden requests", _LOAD_LIMIT_S)
        self._lookups = BlockingCalls("Airflow, for the way to the revisions", _LOOK_UP_LIMIT_S)
        self._loading: asyncio.Task[list[GoldenRequest]] | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self.obstacle = ""

    async def run(self, stable_url: str, candidate_url: str, stop: asyncio.Event) -> Window | None:
        """Replays until `stop` is set; then waits for what is under way, for `timeout_s` at most.

        :return: the window of what was replayed; None where nothing was, for the reason in `obstacle`.
        """
        lacking = "the candidate" if not candidate_url else "stable" if not stable_url else ""
        if lacking:
            return self._hindered(f"{lacking} has no URL of its own in the status of the InferenceService")
        preparing = asyncio.create_task(self._prepare([stable_url, candidate_url]))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({preparing, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                return self._hindered("the golden set could not be read within a window")
            requests = preparing.result()
        except (SlipwayError, OSError) as error:
            return self._hindered(str(error).rstrip("."))
        finally:
            preparing.cancel()
            stopped.cancel()
        self.obstacle = ""
        return await self._replay(requests, self._endpoints[stable_url], self._endpoints[candidate_url], stop)

    def _hindered(self, why: str) -> Window | None:
        """No window. A watch does not end for want of one: the plan's own limit does that."""
        self.obstacle = why
        log.warning("no golden request is replayed: %s", why)
        return None

    async def _prepare(self, urls: Sequence[str]) -> list[GoldenRequest]:
        """The requests, with the way to each of the URLs looked up."""
        for url in urls:
            if url not in self._endpoints:
                self._endpoints[url] = await self._lookups.run(partial(self._ingress.endpoint, url))
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(
                self._store.run(lambda: load_requests(self._release_run, self._registry))
            )
        # Shielded: a store that takes longer than a window is waited for by the next one, not asked once more.
        return await asyncio.shield(self._loading)

    async def _replay(
        self, requests: Sequence[GoldenRequest], stable: Endpoint, candidate: Endpoint, stop: asyncio.Event
    ) -> Window:
        of_stable, of_candidate = Tally(), Tally()
        in_turn = [
            (request, *side)
            for request in requests
            for side in ((stable, of_stable), (candidate, of_candidate))
        ]
        began = due = time.monotonic()
        async with _asking(self._settings.timeout_s) as ask, asyncio.TaskGroup() as group:
            for request, endpoint, tally in itertools.cycle(in_turn):
                if await _is_set_within(stop, due - time.monotonic()):
                    break
                group.create_task(_counted(ask, endpoint, request, tally))
                # What was missed is not made up for: a burst is not what users send.
                due = max(due + 1.0 / self._settings.requests_per_s, time.monotonic())
        seconds = time.monotonic() - began
        return Window(seconds, of_stable.sample(), of_candidate.sample(), "replay")


def load_requests(release_run: ReleaseRun, registry: ModelRegistry) -> list[GoldenRequest]:
    """The first rows of the published version's golden set as requests, one row each. It blocks.

    :raises TransientError: the store is away.
    :raises UserError: there is no such version, or its golden set makes no request that may be replayed.
    """
    manifest = registry.require(release_run.model, release_run.version)
    configs = registry.configs(manifest)
    if is_decoupled(configs.values()):
        raise _decoupled(release_run)
    golden = load_golden_set(registry, manifest, release_run.spec, configs[release_run.model])
    settings = release_run.spec.rollout.golden_replay
    make = grpc_request if release_run.spec.rollout.protocol == "grpc" else golden_request
    requests: list[GoldenRequest] = []
    size, largest = 0, 0
    for _, inputs in itertools.islice(golden.batches(1), _ROWS_LIMIT):
        request = make(release_run.model, manifest.signature, inputs)
        largest = max(largest, len(request.body))
        if len(request.body) <= settings.max_request_bytes and size + len(request.body) <= _BYTES_LIMIT:
            requests.append(request)
            size += len(request.body)
    if not requests:
        raise _too_large(release_run, settings, largest)
    return requests


def golden_request(model: str, signature: ModelSignature, inputs: dict[str, np.ndarray]) -> GoldenRequest:
    """The V2 REST request for these inputs, tensors in binary; no version, since each revision serves one."""
    # The clients are imported by what uses them: every parse of a DAG would pay for them.
    from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

    tensors = []
    for spec in (one for one in signature.inputs if one.name in inputs):
        values = np.ascontiguousarray(inputs[spec.name])
        tensor = InferInput(spec.name, list(values.shape), spec.datatype)
        tensor.set_data_from_numpy(values, binary_data=True)
        tensors.append(tensor)
    outputs = tuple(spec.name for spec in signature.outputs)
    body, header_length = InferenceServerClient.generate_request_body(
        tensors, outputs=[InferRequestedOutput(name, binary_data=True) for name in outputs]
    )
    return GoldenRequest(f"/v2/models/{model}/infer", body, header_length, outputs)


def grpc_request(model: str, signature: ModelSignature, inputs: dict[str, np.ndarray]) -> GoldenRequest:
    """The gRPC request for these inputs; no version, since each revision serves one."""
    outputs = tuple(spec.name for spec in signature.outputs)
    return GoldenRequest("", unary_body(model, signature, inputs), None, outputs)


Ask = Callable[[Endpoint, GoldenRequest], Awaitable[bool]]


@asynccontextmanager
async def _asking(timeout_s: float) -> AsyncIterator[Ask]:
    """What sends a request by the protocol that it is for, and says whether its answer is good."""
    over_grpc = GrpcAsker(timeout_s)
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        # Rate and time limit bound what is under way at once.
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:

        async def ask(endpoint: Endpoint, request: GoldenRequest) -> bool:
            if not request.path:
                return await over_grpc.is_answered(endpoint, request.body, request.outputs)
            return await _is_answered(session, endpoint, request)

        try:
            yield ask
        finally:
            await over_grpc.close()


async def _counted(ask: Ask, endpoint: Endpoint, request: GoldenRequest, tally: Tally) -> None:
    """Sends one request and counts what came of it."""
    began = time.perf_counter()
    good = await ask(endpoint, request)
    tally.add(1000.0 * (time.perf_counter() - began), good)


async def _is_answered(session: aiohttp.ClientSession, endpoint: Endpoint, request: GoldenRequest) -> bool:
    try:
        async with session.post(
            endpoint.base_url + request.path,
            data=request.body,
            headers={**request.headers, "Host": endpoint.host},
            allow_redirects=False,
        ) as answer:
            body = await _body(answer)
            return answer.status < 400 and _has_outputs(request, body, answer.headers.get(_HEADER_LENGTH))
    except (aiohttp.ClientError, OSError):  # a TimeoutError is one of the latter
        return False


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _ANSWER_BYTES_LIMIT:
            return b""
    return b"".join(parts)


def _has_outputs(request: GoldenRequest, body: bytes, header_length: str | None) -> bool:
    """Whether the answer holds every output that was asked for."""
    from tritonclient.http import InferenceServerClient
    from tritonclient.utils import InferenceServerException

    try:
        length = None if header_length is None else int(header_length)
        result = InferenceServerClient.parse_response_body(body, header_length=length)
        return all(result.get_output(name) is not None for name in request.outputs)
    except (ValueError, KeyError, TypeError, AttributeError, InferenceServerException):
        return False


async def _is_set_within(event: asyncio.Event, limit_s: float) -> bool:
    """Waits for an event, at most so long; says whether it came."""
    if limit_s > 0 and not event.is_set():
        try:
            await asyncio.wait_for(event.wait(), limit_s)
        except TimeoutError:
            return False
    return event.is_set()


def _decoupled(release_run: ReleaseRun) -> UserError:
    return UserError(
        f"golden requests cannot be replayed to {release_run.model!r} version {release_run.version}",
        expected="a model that sends one response to a request, for that is what the V2 REST call gives",
        found="a decoupled model",
        remedy="write `hold` or `rollback` under `rollout.on_inconclusive` in the release file",
    )


def _too_large(release_run: ReleaseRun, settings: GoldenReplaySettings, largest: int) -> UserError:
    return UserError(
        f"no golden request of {release_run.model!r} version {release_run.version} is small enough to be replayed",
        expected=f"at most {settings.max_request_bytes} bytes",
        found=f"up to {largest} bytes for one row",
        remedy="raise `rollout.golden_replay.max_request_bytes` in the release file",
    )
