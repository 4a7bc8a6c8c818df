from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import pytest
from aiohttp import web

from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.golden_replay import LATENCY_BOUNDS_MS, GoldenReplay, load_requests
from slipway_core.errors import StoreUnavailableError, UserError
from slipway_core.metrics.samples import Window
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.spec.rollout.golden_replay import GoldenReplaySettings
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.pbtxt import from_pbtxt

STABLE, CANDIDATE = "http://prev-digits.example", "http://latest-digits.example"
Answer = Callable[[str], Awaitable[web.Response]]


class RegistryDouble:
    """One published version with `rows` golden rows of two features and a text."""

    def __init__(self, rows: int = 3) -> None:
        self.rows = rows
        self.config = 'name: "digits"'
        self.away = False
        self.loads = 0

    def require(self, model: str, version: int) -> Manifest:
        """The manifest, unless the store is away."""
        self.loads += 1
        if self.away:
            raise StoreUnavailableError("the object store did not answer")
        return Manifest(
            model=model,
            version=version,
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            files={"digits/config.pbtxt": FileEntry.of(b"")},
            config_sha256="0" * 64,
            signature=ModelSignature(
                inputs=(
                    TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),
                    TensorSpec(name="text", datatype="BYTES", shape=(-1, 1)),
                ),
                outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 1)),),
            ),
            source=Provenance(files={}),
        )

    def configs(self, manifest: Manifest) -> dict[str, dict[str, Any]]:
        """The configuration that was published."""
        return {"digits": from_pbtxt(self.config)}

    def golden_set(self, manifest: Manifest) -> bytes:
        """The npz."""
        file = io.BytesIO()
        x = np.arange(2 * self.rows, dtype=np.float32).reshape(self.rows, 2)
        text = np.array([["a text"]] * self.rows)
        np.savez(file, x=x, text=text, label=np.zeros(self.rows, dtype=np.int64))
        return file.getvalue()


class Revisions:
    """A server that stands for the ingress; what each host answers is set by the test, what came is kept."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.bodies: dict[str, list[bytes]] = {}
        self.paths: Counter[str] = Counter()

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.setdefault(request.host, []).append(await request.read())
        self.paths[request.path] += 1
        return await self.answers.get(request.host, good)(request.host)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Yields the address."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


class IngressDouble:
    """Leads every host to one address."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def endpoint(self, url: str) -> Endpoint:
        """As `IngressHook` with a connection."""
        return Endpoint(self.base_url, urlsplit(url).netloc)


async def good(host: str) -> web.Response:
    return answer(outputs=[{"name": "y", "datatype": "FP32", "shape": [1, 1], "data": [0.5]}])


def answer(status: int = 200, **content: Any) -> web.Response:
    return web.Response(status=status, body=json.dumps({"model_name": "digits", **content}).encode())


def replayed(
    release_run: ReleaseRun, registry: RegistryDouble, base_url: str, **settings: Any
) -> GoldenReplay:
    golden_replay = GoldenReplaySettings(**{"requests_per_s": 200.0, "timeout_s": 1.0, **settings})
    rollout = release_run.spec.rollout.model_copy(update={"golden_replay": golden_replay})
    release_run = release_run.model_copy(
        update={"spec": release_run.spec.model_copy(update={"rollout": rollout})}
    )
    return GoldenReplay(
        release_run, cast(ModelRegistry, registry), cast(IngressHook, IngressDouble(base_url))
    )


async def replay_until(
    replay: GoldenReplay, enough: Callable[[], bool], stable: str = STABLE, candidate: str = CANDIDATE
) -> Window | None:
    """Replays until a condition holds, ten seconds at most."""
    stop = asyncio.Event()
    running = asyncio.create_task(replay.run(stable, candidate, stop))
    for _ in range(1000):
        if enough() or running.done():
            break
        await asyncio.sleep(0.01)
    stop.set()
    return await running


async def test_the_same_rows_go_to_both_in_turn(release_run: ReleaseRun) -> None:
    """Each revision is asked by its own host for the same golden rows, again and again, and counted by itself."""
    revisions = Revisions()
    async with revisions.served() as base_url:
        replay = replayed(release_run, RegistryDouble(), base_url)
        window = await replay_until(replay, lambda: sum(revisions.paths.values()) >= 12)
    assert window is not None
    assert (window.source, window.stable.errors, window.candidate.errors) == ("replay", 0, 0)
    # One more was sent to stable, to see how long an answer takes; it counts for nothing.
    assert window.stable.requests + window.candidate.requests == sum(revisions.paths.values()) - 1
    assert 0 <= window.stable.requests - window.candidate.requests <= 1
    assert [*revisions.paths] == ["/v2/models/digits/infer"]
    rows = [set(revisions.bodies[urlsplit(url).netloc]) for url in (STABLE, CANDIDATE)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3
    assert [*window.stable.latency_buckets] == [*window.candidate.latency_buckets] == [*LATENCY_BOUNDS_MS]
    assert sum(window.candidate.latency_buckets.values()) == window.candidate.requests


async def _refuses(host: str) -> web.Response:
    return answer(500, error="drawn to fail")


async def _lacks_outputs(host: str) -> web.Response:
    return answer(outputs=[{"name": "z", "datatype": "FP32", "shape": [1], "data": [1.0]}])


async def _is_no_answer(host: str) -> web.Response:
    return web.Response(body=b"<html>log in</html>")


async def _is_silent(host: str) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def _sends_elsewhere(host: str) -> web.Response:
    return web.Response(status=302, headers={"Location": "/"})


@pytest.mark.parametrize("bad", [_refuses, _lacks_outputs, _is_no_answer, _is_silent, _sends_elsewhere])
async def test_what_is_no_answer_is_an_error_of_the_revision(release_run: ReleaseRun, bad: Answer) -> None:
    """An error status, other outputs, a page, silence beyond the limit: each counts against who was asked."""
    revisions = Revisions()
    revisions.answers[urlsplit(CANDIDATE).netloc] = bad
    async with revisions.served() as base_url:
        replay = replayed(release_run, RegistryDouble(), base_url, timeout_s=2.0)
        window = await replay_until(replay, lambda: sum(revisions.paths.values()) >= 8)
    assert window is not None
    assert window.candidate.errors == window.candidate.requests > 0
    assert window.stable.errors == 0


class OneInstance:
    """A model that answers one request after the other, each in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.answered = self.under_way = self.most = 0
        self._instance = asyncio.Lock()

    async def __call__(self, host: str) -> web.Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            async with self._instance:
                await asyncio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        self.answered += 1
        return await good(host)


async def test_a_model_slower_than_the_limit_has_no_errors(release_run: ReleaseRun) -> None:
    """Whatever the rate, a model that needs longer than `timeout_s` is asked one by one, and waited for."""
    revisions, stable, candidate = Revisions(), OneInstance(0.8), OneInstance(0.8)
    revisions.answers = {urlsplit(STABLE).netloc: stable, urlsplit(CANDIDATE).netloc: candidate}
    async with revisions.served() as base_url:
        replay = replayed(release_run, RegistryDouble(), base_url, timeout_s=0.5)
        window = await replay_until(replay, lambda: stable.answered >= 3 and candidate.answered >= 2)
        replay.stop()
    assert window is not None
    assert (window.stable.errors, window.candidate.errors) == (0, 0)
    assert window.candidate.requests >= 2
    assert (stable.most, candidate.most) == (1, 1)


async def test_a_slow_answer_counts_in_the_window_in_which_it_comes(release_run: ReleaseRun) -> None:
    """A window ends without it: users' windows wait for no slow model. Nor is it lost, or an error."""
    revisions, stable, candidate = Revisions(), OneInstance(2.0), OneInstance(2.0)
    revisions.answers = {urlsplit(STABLE).netloc: stable, urlsplit(CANDIDATE).netloc: candidate}
    async with revisions.served() as base_url:
        replay = replayed(release_run, RegistryDouble(), base_url, timeout_s=0.5)
        first = await replay_until(replay, lambda: candidate.under_way == 1)
        second = await replay_until(replay, lambda: candidate.answered == 1)
        replay.stop()
    assert first is not None
    assert second is not None
    assert (first.stable.requests, first.candidate.requests) == (0, 0)
    assert (second.candidate.requests, second.candidate.errors, second.stable.errors) == (1, 0, 0)


async def test_a_stable_that_is_silent_is_not_compared_with(release_run: ReleaseRun) -> None:
    """Without one answer of stable nothing says how long an answer may take: nobody is judged."""
    revisions = Revisions()
    revisions.answers[urlsplit(STABLE).netloc] = _is_silent
    async with revisions.served() as base_url:
        replay = replayed(release_run, RegistryDouble(), base_url)
        window = await replay_until(replay, lambda: sum(revisions.paths.values()) >= 1)
        replay.stop()
    assert window is None
    assert "stable has not answered the first golden request yet" in replay.obstacle
    assert revisions.paths.total() == 1


async def test_nobody_listening_is_an_error_of_both(release_run: ReleaseRun, unused_tcp_port: int) -> None:
    """A way that leads nowhere fails for both alike, which condemns nobody."""
    replay = replayed(release_run, RegistryDouble(), f"http://127.0.0.1:{unused_tcp_port}")
    polls = itertools.count()
    window = await replay_until(replay, lambda: next(polls) > 50)
    assert window is not None
    assert window.candidate.errors == window.candidate.requests > 0
    assert window.stable.errors == window.stable.requests > 0


async def test_the_rate_is_bounded(release_run: ReleaseRun) -> None:
    """No more is sent than the release file allows, in all."""
    revisions = Revisions()
    async with revisions.served() as base_url:
        replay = replayed(release_run, RegistryDouble(), base_url, requests_per_s=20.0)
        window = await replay_until(replay, lambda: sum(revisions.paths.values()) >= 10)
    assert window is not None
    assert window.stable.requests + window.candidate.requests <= 1 + 20.0 * window.seconds


async def test_a_store_that_is_away_means_no_replay_and_no_crash(release_run: ReleaseRun) -> None:
    """The window is lost; the next one tries again."""
    revisions, registry = Revisions(), RegistryDouble()
    registry.away = True
    async with revisions.served() as base_url:
        replay = replayed(release_run, registry, base_url)
        assert await replay_until(replay, lambda: False) is None
        assert "object store did not answer" in replay.obstacle
        registry.away = False
        window = await replay_until(replay, lambda: sum(revisions.paths.values()) >= 2)
    assert window is not None
    assert replay.obstacle == ""


async def test_a_slow_store_is_asked_once(release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A golden set that takes longer than a window is waited for by the next one, not read twice at once."""
    revisions, registry = Revisions(), RegistryDouble()
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    require = registry.require

    def slow(model: str, version: int) -> Manifest:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(timeout=10)
        return require(model, version)

    monkeypatch.setattr(registry, "require", slow)
    async with revisions.served() as base_url:
        replay = replayed(release_run, registry, base_url)
        assert await replay_until(replay, lambda: True) is None
        assert "within a window" in replay.obstacle
        release.set()
        window = await replay_until(replay, lambda: sum(revisions.paths.values()) >= 2)
    assert window is not None
    assert registry.loads == 1


@pytest.mark.parametrize(
    ("stable", "candidate", "lacks"), [("", CANDIDATE, "stable"), (STABLE, "", "the candidate")]
)
async def test_a_revision_without_a_url_is_named(
    release_run: ReleaseRun, stable: str, candidate: str, lacks: str
) -> None:
    """Without both URLs nothing is sent to either."""
    replay = replayed(release_run, RegistryDouble(), "http://127.0.0.1:9")
    assert await replay_until(replay, lambda: False, stable, candidate) is None
    assert replay.obstacle.startswith(f"{lacks} has no URL of its own")


def test_rows_that_are_too_large_are_left_out(release_run: ReleaseRun) -> None:
    """A golden set of large rows alone makes no request, and the error says what to raise."""
    registry = RegistryDouble()
    large = np.zeros((2, 2000), dtype=np.float32)
    file = io.BytesIO()
    np.savez(file, x=large, text=np.array([["a"]] * 2), label=np.zeros(2, dtype=np.int64))
    registry.golden_set = lambda manifest: file.getvalue()  # type: ignore[method-assign]
    manifest = registry.require("digits", 3)
    wide = ModelSignature(
        inputs=(manifest.signature.inputs[0], TensorSpec(name="x", datatype="FP32", shape=(-1, 2000))),
        outputs=manifest.signature.outputs,
    )
    registry.require = lambda model, version: manifest.model_copy(update={"signature": wide})  # type: ignore[method-assign]
    small = release_run.spec.rollout.model_copy(
        update={"golden_replay": GoldenReplaySettings(max_request_bytes=4096)}
    )
    limited = release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": small})})
    with pytest.raises(UserError, match="max_request_bytes"):
        load_requests(limited, cast(ModelRegistry, registry))


def test_a_decoupled_model_is_not_replayed(release_run: ReleaseRun) -> None:
    """Triton refuses such a model's requests over this call; both versions would look broken."""
    registry = RegistryDouble()
    registry.config = 'name: "digits" model_transaction_policy { decoupled: true }'
    with pytest.raises(UserError, match="found a decoupled model"):
        load_requests(release_run, cast(ModelRegistry, registry))


def test_an_optional_input_that_the_golden_set_lacks_is_left_out(release_run: ReleaseRun) -> None:
    """The request has the inputs of the golden set, and no other."""
    registry = RegistryDouble()
    registry.config = 'name: "digits" input { name: "x" } input { name: "text" optional: true }'
    file = io.BytesIO()
    np.savez(file, x=np.zeros((2, 2), np.float32), label=np.zeros(2, np.int64))
    registry.golden_set = lambda manifest: file.getvalue()  # type: ignore[method-assign]
    request, _ = load_requests(release_run, cast(ModelRegistry, registry))
    header = json.loads(request.body[: request.header_length])
    assert [tensor["name"] for tensor in header["inputs"]] == ["x"]
