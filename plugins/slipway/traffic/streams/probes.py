"""Golden requests that are streamed to both revisions while a canary is watched.

Nothing here is waited for: requests are under way in the background, and a window takes what has ended since the one
before. A stream that hangs ends as an error when its time is up, whatever the watch does meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.metrics.source import MetricsSource, StreamCounting
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.golden_replay import Tally
from slipway.traffic.streams.answer import StreamAsker, StreamedAnswer, clipped
from slipway.traffic.streams.requests import (
    StreamedGolden,
    StreamNeed,
    make_asker,
    stream_need,
    streamed_golden,
)
from slipway_core.canary.verdict import Verdict
from slipway_core.errors import InputMissingError, SlipwayError, TransientError
from slipway_core.metrics.samples import Sample, Window

log = logging.getLogger(__name__)

_STORE_LIMIT_S = 600.0
_LOOK_UP_LIMIT_S = 30.0
_RETRY_S = 2.0
# So many requests may be under way to one revision: a slow model is asked less often, and not overrun.
_UNDER_WAY_LIMIT = 8
_CLOSE_LIMIT_S = 1.0
# Between two looks whether the router sees streams of a model that nothing calls streamed.
_LOOK_S = 5.0
# Without an answer for so long it passes nothing any more, and the plan's own limit ends the step.
_LOOK_LIMIT_S = 30.0
_NOBODY_READS = (
    "the router has seen {seen} streams from users, and nothing reads their content; write `rollout.streaming: "
    "{{protocol: grpc}}` (or `generate_stream`) in the release file, and release the version again"
)

Urls = Callable[[], tuple[str, str]]
Result = TypeVar("Result")


class StreamProbes:
    """The streamed golden requests of one watch.

    :param ingress: the way to the revisions' hosts.
    :param metrics: is asked whether streams are seen of a model that is not known to be asked over them.

    `obstacle` says why nobody is asked, "" where they are, or need not be.
    """

    def __init__(
        self,
        release_run: ReleaseRun,
        registry: ModelRegistry,
        ingress: IngressHook,
        metrics: MetricsSource | None = None,
    ) -> None:
        self._release_run, self._registry, self._ingress = release_run, registry, ingress
        source: object = metrics
        self._counting = source if isinstance(source, StreamCounting) else None
        self._settings = release_run.spec.rollout.streaming
        self._store = BlockingCalls("the object store, for golden requests over streams", _STORE_LIMIT_S)
        self._lookups = BlockingCalls("Airflow, for the revisions' addresses", _LOOK_UP_LIMIT_S)
        self._metrics = BlockingCalls("the metrics source, for streams", _LOOK_UP_LIMIT_S)
        self._endpoints: dict[str, Endpoint] = {}
        self._running: asyncio.Task[None] | None = None
        self._known = asyncio.Event()
        self._is_needed = False
        self._stable, self._candidate = _Side("stable"), _Side("the candidate")
        self._taken_at = time.monotonic()
        self.obstacle = ""

    def begin(self, urls: Urls) -> None:
        """Begin to ask, where the model is asked over streams.

        :param urls: returns the own URLs of stable and candidate as they are now, "" where there is none.
        """
        self._taken_at = time.monotonic()
        self._running = asyncio.create_task(self._run(urls))

    def take(self) -> Window | None:
        """Return what has ended since the window before, one without requests where nothing has; None: the model is not
        asked over streams, or that is not known yet.
        """
        if not self._is_needed:
            return None
        now = time.monotonic()
        seconds, self._taken_at = now - self._taken_at, now
        return Window(seconds, self._stable.taken(), self._candidate.taken(), "stream")

    async def is_known(self, limit_s: float) -> bool:
        """Return whether it is known within the limit if the model is asked over streams. Else no step may end well."""
        try:
            await asyncio.wait_for(self._known.wait(), limit_s)
        except TimeoutError:
            log.warning(
                "the step does not end: %s", self.obstacle or "whether streams are needed is not known yet"
            )
        return self._known.is_set()

    def explained(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the reason why no answers inside streams are read, where that is so."""
        if verdict.status != "inconclusive" or not (self._is_needed and self.obstacle):
            return verdict
        reason = f"{verdict.reason} No golden requests are streamed: {self.obstacle.rstrip('.')}."
        return replace(verdict, reason=reason)

    def stop(self) -> None:
        """Ask nobody any more, and wait for nothing."""
        if self._running is not None:
            self._running.cancel()

    async def _look_for_streams(self) -> None:
        """Look again and again whether users stream though nothing speaks of it; then no step passes."""
        rollout, counting = self._release_run.spec.rollout, self._counting
        if counting is None or self._settings.answers_read_by == "metrics":
            self._known.set()
            return
        given_up_at = time.monotonic() + _LOOK_LIMIT_S
        while True:
            try:
                seen = await self._metrics.run(
                    lambda: counting.streams_seen(rollout.namespace, rollout.inference_service)
                )
            except SlipwayError as error:
                self.obstacle = f"it is unknown whether users stream: {error.in_short()}"
                if time.monotonic() > given_up_at and not self._known.is_set():
                    self._is_needed = True
                    self._known.set()
            else:
                self.obstacle = "" if not seen else _NOBODY_READS.format(seen=seen)
                self._is_needed = bool(seen)
                self._known.set()
            await asyncio.sleep(_LOOK_S)

    async def _run(self, urls: Urls) -> None:
        try:
            need = await self._loaded(self._need)
            if need is None:
                await self._look_for_streams()
                return
            self._is_needed = True
            self._known.set()
            log.info("the model serves streams: %s", need.why)
            self.obstacle = "the golden set was not read yet"
            golden = await self._loaded(
                lambda: streamed_golden(self._release_run, self._registry, need.protocol)
            )
            await self._ask_in_turn(need, golden, urls)
        except Exception as error:  # an unknown need passes nothing; the plan's own limit ends the step
            reason = str(error) if isinstance(error, SlipwayError) else f"{type(error).__name__}: {error}"
            self._is_needed, self.obstacle = True, reason
            self._known.set()
            log.warning("no golden requests are streamed: %s", error)
        finally:
            for side in (self._stable, self._candidate):
                await side.close()

    def _need(self) -> StreamNeed | None:
        """Return how the model is asked over streams, as far as the store says.

        No percent is given to a version without a manifest, and before the first one `preflight.py` has asked the same.
        """
        try:
            return stream_need(self._release_run, self._registry)
        except InputMissingError as error:
            log.warning("no configuration says whether the model serves streams: %s", error.in_short())
            return None

    async def _loaded(self, load: Callable[[], Result]) -> Result:
        """Return what the store has, however long that takes."""
        while True:
            try:
                return await self._store.run(load)
            except (TransientError, OSError) as error:
                self.obstacle = error.in_short() if isinstance(error, TransientError) else str(error)
                await asyncio.sleep(_RETRY_S)

    async def _ask_in_turn(self, need: StreamNeed, golden: StreamedGolden, urls: Urls) -> None:
        """Stream the same rows to both, again and again. What was missed is not made up for."""
        period_s, due = 2.0 / self._settings.requests_per_s, time.monotonic()
        for body in itertools.cycle(golden.bodies):
            await asyncio.sleep(due - time.monotonic())
            due = max(due + period_s, time.monotonic())
            stable_url, candidate_url = urls()
            lacking = "the candidate" if not candidate_url else "stable" if not stable_url else ""
            if lacking:
                self.obstacle = (
                    f"{lacking} has no URL of its own in the status of the InferenceService; in Knative mode the "
                    'annotation `serving.kserve.io/enable-tag-routing: "true"` gives it one'
                )
                continue
            try:
                await self._lead(need, golden, (self._stable, stable_url), (self._candidate, candidate_url))
            except (SlipwayError, OSError) as error:
                self.obstacle = str(error)
                continue
            self.obstacle = ""
            self._stable.ask(body)
            self._candidate.ask(body)

    async def _lead(self, need: StreamNeed, golden: StreamedGolden, *sides: tuple[_Side, str]) -> None:
        """Lead each side to its URL, where that is another one than before."""
        for side, url in sides:
            if side.url == url:
                continue
            if url not in self._endpoints:
                self._endpoints[url] = await self._lookups.run(partial(self._ingress.endpoint, url))
            asker = make_asker(need.protocol, self._endpoints[url], self._release_run, golden.outputs)
            await side.lead(url, asker)


class _Side:
    """One revision: what is under way to it, and what came of it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._asker: StreamAsker | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._tally, self._fault = Tally(), ""
        self.url = ""

    async def lead(self, url: str, asker: StreamAsker) -> None:
        """Ask this one from now on."""
        await self.close()
        self.url, self._asker = url, asker

    def ask(self, body: bytes) -> None:
        """Have one request streamed, unless too many are under way."""
        if self._asker is None or len(self._under_way) >= _UNDER_WAY_LIMIT:
            return
        task = asyncio.create_task(self._ask(self._asker, body))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def taken(self) -> Sample:
        """Return the counts since they were taken last."""
        sample, self._tally = self._tally.sample(), Tally()
        if self._fault:
            log.warning(
                "%d of %d streamed golden requests failed at %s, the last: %s",
                *(sample.errors, sample.requests, self._name, self._fault),
            )
        self._fault = ""
        return sample

    async def close(self) -> None:
        """Give up what is under way; it counts for nothing."""
        for task in self._under_way:
            task.cancel()
        asker, self._asker, self.url = self._asker, None, ""
        if asker is not None:
            await asyncio.wait({asyncio.ensure_future(asker.close())}, timeout=_CLOSE_LIMIT_S)

    async def _ask(self, asker: StreamAsker, body: bytes) -> None:
        try:
            answer = await asker.ask(body)
        except Exception as error:  # whatever a server makes a client raise is no answer
            answer = StreamedAnswer(0.0, 0, clipped(f"{type(error).__name__}: {error}"))
        self._fault = answer.fault or self._fault
        self._tally.add(answer.latency_ms, not answer.fault)
