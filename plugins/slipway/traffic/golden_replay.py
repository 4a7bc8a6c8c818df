"""Golden requests to the revisions' own URLs, where users send too little to judge a candidate by."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.golden_requests.grpc_requests import unary_body
from slipway.traffic.golden_requests.sending import Ask, GoldenRequest, asking
from slipway_core.canary.pace import LONGEST_S, Pace
from slipway_core.errors import SlipwayError, UserError
from slipway_core.gates.validation.request_options import is_decoupled
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.golden_replay import GoldenReplaySettings
from slipway_core.tensors import ModelSignature

log = logging.getLogger(__name__)

# Upper bounds of the histogram's buckets, the same for both revisions.
LATENCY_BOUNDS_MS = (
    *(1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0),
    *(1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 30000.0, 60000.0, math.inf),
)
# The golden set may be large; some of it says as much about latency, and what it all says validation has said.
_ROWS_LIMIT, _BYTES_LIMIT = 256, 32 * 1024 * 1024
# The golden set is read once; a store that takes longer is asked again.
_LOAD_LIMIT_S = 600.0
_LOOK_UP_LIMIT_S = 30.0
# Between two looks whether one more may be under way.
_PLACE_POLL_S = 0.01


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


class _Side:
    """One revision: what is under way to it, and what came of it since that was taken last."""

    def __init__(self) -> None:
        self.under_way = 0
        self._tally = Tally()

    def add(self, latency_s: float, good: bool) -> None:
        """Count one answer, or that there was none."""
        self._tally.add(1000.0 * latency_s, good)

    def taken(self) -> Sample:
        """Return the counts since they were taken last."""
        sample, self._tally = self._tally.sample(), Tally()
        return sample


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
        self._lookups = BlockingCalls("Airflow, for the revisions' addresses", _LOOK_UP_LIMIT_S)
        self._loading: asyncio.Task[list[GoldenRequest]] | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._pace = Pace(self._settings.timeout_s)
        self._stable, self._candidate = _Side(), _Side()
        self._measuring: asyncio.Task[None] | None = None
        self._rounds: set[asyncio.Task[None]] = set()
        self.obstacle = ""

    async def run(self, stable_url: str, candidate_url: str, stop: asyncio.Event) -> Window | None:
        """Replays until `stop` is set; then waits for what is under way, for `timeout_s` at most.

        What a slow model has not answered by then stays under way, and counts in the window in which it ends.

        :return: the window of what was replayed; None where nothing was, for the reason in `obstacle`.
        """
        lacking = "the candidate" if not candidate_url else "stable" if not stable_url else ""
        if lacking:
            return self._not_replayed(
                f"{lacking} has no URL of its own in the status of the InferenceService"
            )
        began = time.monotonic()
        preparing = asyncio.create_task(self._prepare([stable_url, candidate_url]))
        try:
            if not await _is_done_before(preparing, stop):
                return self._not_replayed("the golden set could not be read within a window")
            requests = preparing.result()
        except (SlipwayError, OSError) as error:
            return self._not_replayed(str(error).rstrip("."))
        finally:
            preparing.cancel()
        stable, candidate = self._endpoints[stable_url], self._endpoints[candidate_url]
        if not await self._is_measured(stable, requests[0], stop):
            return self._not_replayed(
                "stable has not answered the first golden request yet, which sets the pace of the others"
            )
        self.obstacle = ""
        return await self._replay(requests, stable, candidate, stop, began)

    def stop(self) -> None:
        """Ask nobody any more; what is under way counts for nothing."""
        for task in (*self._rounds, *([self._measuring] if self._measuring else [])):
            task.cancel()

    def _not_replayed(self, why: str) -> Window | None:
        """No window. A watch does not end for want of one: the plan's own limit does that."""
        self.obstacle = why
        log.warning("no golden requests are replayed: %s", why)
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

    async def _is_measured(self, stable: Endpoint, request: GoldenRequest, stop: asyncio.Event) -> bool:
        """Say whether stable's pace is known, as far as that can be: an error that comes at once has none."""
        if self._pace.single_s is not None:
            return True
        if self._measuring is None:
            self._measuring = asyncio.create_task(self._measure(stable, request))
        if not await _is_done_before(self._measuring, stop):
            return False
        measured, self._measuring = self._measuring, None
        return measured.exception() is None

    async def _measure(self, stable: Endpoint, request: GoldenRequest) -> None:
        """Ask stable alone, once; it counts for nothing.

        :raises TimeoutError: it gave no answer in the longest time.
        """
        async with asking() as ask:
            answered = await ask(stable, request, LONGEST_S)
        if answered.good:
            self._pace.saw(answered.seconds)
        elif answered.seconds >= LONGEST_S:
            raise TimeoutError

    async def _replay(
        self,
        requests: Sequence[GoldenRequest],
        stable: Endpoint,
        candidate: Endpoint,
        stop: asyncio.Event,
        began: float,
    ) -> Window:
        """Send until `stop`, and return what has ended since the window before."""
        sending = asyncio.create_task(self._send(requests, stable, candidate, stop))
        self._rounds.add(sending)
        sending.add_done_callback(self._rounds.discard)
        try:
            await stop.wait()
            await asyncio.wait(self._rounds, timeout=self._settings.timeout_s)
        except asyncio.CancelledError:
            self.stop()
            raise
        if sending.done():
            sending.result()
        return Window(time.monotonic() - began, self._stable.taken(), self._candidate.taken(), "replay")

    async def _send(
        self, requests: Sequence[GoldenRequest], stable: Endpoint, candidate: Endpoint, stop: asyncio.Event
    ) -> None:
        """Send each row to both in turn, as fast as the rate and both revisions' answers allow; wait for all."""
        in_turn = [
            (request, *side)
            for request in requests
            for side in ((stable, self._stable), (candidate, self._candidate))
        ]
        due = time.monotonic()
        async with asking() as ask, asyncio.TaskGroup() as group:
            for request, endpoint, side in itertools.cycle(in_turn):
                if await _is_set_within(stop, due - time.monotonic()):
                    break
                # Of both: a row that only one is asked would compare two mixes of rows.
                while side is self._stable and self._has_no_place:
                    if await _is_set_within(stop, _PLACE_POLL_S):
                        return
                side.under_way += 1
                group.create_task(self._counted(ask, endpoint, request, side))
                # What was missed is not made up for: a burst is not what users send.
                due = max(due + 1.0 / self._settings.requests_per_s, time.monotonic())

    @property
    def _has_no_place(self) -> bool:
        """Whether one more pair would be more than the slower revision answers in time."""
        return max(self._stable.under_way, self._candidate.under_way) >= self._pace.under_way_most

    async def _counted(self, ask: Ask, endpoint: Endpoint, request: GoldenRequest, side: _Side) -> None:
        """Send one request and count what came of it."""
        try:
            answered = await ask(endpoint, request, self._pace.limit_s(side.under_way))
        finally:
            side.under_way -= 1
        if answered.good and side is self._stable:
            self._pace.saw(answered.seconds)
        side.add(answered.seconds, answered.good)


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


async def _is_done_before(task: asyncio.Task[Any], stop: asyncio.Event) -> bool:
    """Wait until a task is done or `stop` is set; say whether it is done."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    return task.done()


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
        expected="a model that sends one response for each request, as the V2 REST protocol does",
        found="a decoupled model",
        remedy="write `hold` or `rollback` under `rollout.on_inconclusive` in the release file",
    )


def _too_large(release_run: ReleaseRun, settings: GoldenReplaySettings, largest: int) -> UserError:
    return UserError(
        f"no golden request of {release_run.model!r} version {release_run.version} is small enough to replay",
        expected=f"at most {settings.max_request_bytes} bytes",
        found=f"up to {largest} bytes for one row",
        remedy="raise `rollout.golden_replay.max_request_bytes` in the release file",
    )
