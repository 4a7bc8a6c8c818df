"""The emulated controllers say of an InferenceService what the real KServe said in the same situation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.kserve import worker
from slipway_sandbox.kserve.controller import KServeController, KServeSettings
from slipway_sandbox.services.routing import Routing
from slipway_sandbox.services.triton import TritonPorts
from tests.support.cluster.questions.known_differences import KNOWN_STATUS_DIFFERENCES
from tests.support.cluster.questions.recorded import differences
from tests.support.cluster.questions.recorded_conditions import (
    condition_words,
    events,
    situations,
    told_by,
    words,
)

KIND, NAMESPACE, NAME = "inferenceservices", "models", "table"
FIRST, SECOND, BROKEN = (f"s3://models/table/{version}/repository" for version in (1, 2, 13))
_LIMIT_S = 10.0


class Pods:
    """Servers that become ready, or fail, when a test says so; in the place of `RevisionRun`."""

    phases: dict[str, str]

    def __init__(
        self, name: str, storage_uri: str, folder: Path, prepare: object, environment: object, *rest: Any
    ) -> None:
        self.name, self.storage_uri = name, storage_uri
        self.message, self.exit_code = "", 0
        self.ports = TritonPorts.free()
        self._on_change: Callable[[], None] = rest[0]

    @property
    def phase(self) -> str:
        """What has become of the server."""
        phase = self.phases.get(self.storage_uri, "pending")
        self.message, self.exit_code = ("no such repository", 1) if phase == "failed" else ("", 0)
        return phase

    def start(self) -> None:
        """Begin."""

    async def stop(self, grace_s: float | None = None) -> None:
        """End."""


class Stage:
    """A store, the controller over it, and every status that was written."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.store = ObjectStore(namespaces=(NAMESPACE, "kserve", "default"))
        settings = KServeSettings(folder / "state", folder / "router", "http://127.0.0.1:1")
        self.controller = KServeController(self.store, settings)
        self.controller.router.apply = self._route  # type: ignore[method-assign]
        self.mode = mode
        self.statuses: list[dict[str, Any]] = []
        self.phases: dict[str, str] = {}

    async def _route(self, routing: Routing) -> None:
        """Do at once what a router would do."""

    async def follow(self) -> None:
        """Keep every status, for ever."""
        async for _, service in self.store.watch(KIND):
            self.statuses.append(service.get("status") or {})

    def create(self, uri: str) -> None:
        """Create the InferenceService."""
        model = {"modelFormat": {"name": "triton"}, "storageUri": uri}
        annotations = {
            "serving.kserve.io/deploymentMode": self.mode,
            "serving.kserve.io/enable-tag-routing": "true",
        }
        self.store.create(
            {
                "apiVersion": "serving.kserve.io/v1beta1",
                "kind": "InferenceService",
                "metadata": {"name": NAME, "namespace": NAMESPACE, "annotations": annotations},
                "spec": {"predictor": {"minReplicas": 1, "model": model}},
            }
        )

    def patch(self, spec: dict[str, Any]) -> None:
        """Patch the spec."""
        self.store.merge_patch(KIND, NAMESPACE, NAME, {"spec": spec})

    def become(self, uri: str, phase: str) -> None:
        """Let the pods of a version become ready, or fail."""
        self.phases[uri] = phase
        for one in self.controller._services.values():
            one.wake()

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the status once the condition holds."""
        limit = time.monotonic() + _LIMIT_S
        while not condition(status := self.store.get(KIND, NAMESPACE, NAME).get("status") or {}):
            assert time.monotonic() < limit, status
            await asyncio.sleep(0.01)
        return status


def _is_told(status: dict[str, Any]) -> bool:
    return bool(status.get("conditions"))


def _transition(word: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: (status.get("modelStatus") or {}).get("transitionStatus") == word


def _routed_and(condition: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], bool]:
    """Return a condition that holds once the ingress has taken the traffic too."""
    routed = ["PredictorRouteReady", "True", "", "Info"]
    return lambda status: condition(status) and routed in condition_words(status)


def _canary(uri: str) -> dict[str, Any]:
    model = {"modelFormat": {"name": "triton"}, "storageUri": uri}
    return {"canary": [{"trafficPercent": 20, "predictor": {"name": "v2", "minReplicas": 1, "model": model}}]}


def _canary_is(*, ready: bool) -> Callable[[dict[str, Any]], bool]:
    return lambda status: [one["ready"] for one in status.get("canaryStatuses") or ()] == [ready]


def _candidate(uri: str) -> dict[str, Any]:
    return {"predictor": {"canaryTrafficPercent": 20, "model": {"storageUri": uri}}}


async def _first(stage: Stage, uri: str, phase: str, transition: str) -> dict[str, Any]:
    stage.create(uri)
    await stage.until(_is_told)
    stage.become(uri, phase)
    return await stage.until(_transition(transition))


async def _standard(stage: Stage, situation: str) -> dict[str, Any]:
    """Bring an InferenceService in Standard mode into a situation, and return its status."""
    if situation == "the first pods start":
        stage.create(FIRST)
        return await stage.until(_is_told)
    if situation == "the first pods fail":
        return await _first(stage, BROKEN, "failed", "BlockedByFailedLoad")
    serving = await _first(stage, FIRST, "ready", "UpToDate")
    if situation == "the first pods serve":
        return serving
    if situation == "an update of stable fails":
        stage.patch({"predictor": {"model": {"storageUri": BROKEN}}})
        stage.become(BROKEN, "failed")
        return await stage.until(_transition("BlockedByFailedLoad"))
    failed = situation == "the canary fails"
    uri = BROKEN if failed else SECOND
    stage.patch(_canary(uri))
    starting = await stage.until(_canary_is(ready=False))
    if situation == "the canary starts":
        return starting
    stage.become(uri, "failed" if failed else "ready")
    assert situation in ("the canary fails", "the canary is ready")
    return await stage.until(_canary_is(ready=not failed))


async def _knative(stage: Stage, situation: str) -> dict[str, Any]:
    """Bring an InferenceService in Knative mode into a situation, and return its status."""
    if situation == "the first revision starts":
        stage.create(FIRST)
        return await stage.until(_is_told)
    serving = await _first(stage, FIRST, "ready", "UpToDate")
    if situation == "the first revision serves":
        return serving
    failed = situation == "the candidate fails"
    uri = BROKEN if failed else SECOND
    stage.patch(_candidate(uri))
    starting = await stage.until(_routed_and(_transition("InProgress")))
    if situation == "the candidate starts":
        return starting
    stage.become(uri, "failed" if failed else "ready")
    assert situation in ("the candidate fails", "the candidate has its share")
    return await stage.until(_routed_and(_transition("BlockedByFailedLoad" if failed else "UpToDate")))


async def _lived(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, situation: str
) -> tuple[dict[str, Any], Stage]:
    """Return the status in a situation, and the stage on which it came to that."""
    monkeypatch.setattr(worker, "RevisionRun", Pods)
    stage = Stage(folder, mode)
    monkeypatch.setattr(Pods, "phases", stage.phases, raising=False)
    tasks = [asyncio.create_task(stage.controller.run()), asyncio.create_task(stage.follow())]
    try:
        play = _standard if mode == "Standard" else _knative
        return await play(stage, situation), stage
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_CASES = [(one.mode, one.name) for one in situations()]


@pytest.mark.parametrize(("mode", "situation"), _CASES)
async def test_the_status_says_what_the_real_one_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, situation: str
) -> None:
    """Conditions, model status and mode are those of the recording, but for what the list of differences names."""
    (recorded,) = [one.status for one in situations() if (one.mode, one.name) == (mode, situation)]
    status, _ = await _lived(tmp_path, monkeypatch, mode, situation)
    found = differences(_by_type(recorded), _by_type(told_by(status)))
    known = [one for one in KNOWN_STATUS_DIFFERENCES if one.mode == mode and situation in one.situations]
    places = tuple(one.place for one in known)
    assert [line for line in found if not line.startswith(places)] == []
    assert [place for place in places if not any(line.startswith(place) for line in found)] == []


@pytest.mark.parametrize("mode", ["Standard", "Knative"])
async def test_no_condition_has_words_that_kserve_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """On the way through all situations each condition's status, reason and severity are some that were recorded."""
    used: set[tuple[str, ...]] = set()
    for number, (_, situation) in enumerate(case for case in _CASES if case[0] == mode):
        last, stage = await _lived(tmp_path / str(number), monkeypatch, mode, situation)
        used |= {tuple(one) for status in [*stage.statuses, last] for one in condition_words(status)}
    assert used - words(mode) == set()


async def test_readiness_is_told_by_the_events_that_kserve_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event when the service becomes ready, one when it is no longer, in KServe's words and name."""
    _, stage = await _lived(tmp_path, monkeypatch, "Standard", "the first pods serve")
    (told,) = stage.store.list("events", NAMESPACE)
    message = told["message"].replace(f"[{NAME}]", "[NAME]")
    assert (told["type"], told["reason"], message, told["source"]["component"]) in events()
    assert told["involvedObject"]["kind"] == "InferenceService"


def _by_type(status: Any) -> dict[str, Any]:
    """Return a status with its conditions by type, so that a difference names the condition."""
    return {**status, "conditions": {kind: line for kind, *line in status["conditions"]}}
