"""A canary whose dependencies hang: each is a process that is stopped, not killed, so it keeps everybody waiting.

`SLIPWAY_STALLS_S=10,45,120` runs the good versions through stalls of these seconds; by default they last some windows.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from airflow.sdk import BaseHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.live_reader import read_live
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import WatchState
from slipway.traffic.step_watcher import StepWatch
from slipway.triggers.canary import CanaryStepTrigger

from include.model_release.canary.judge import CanaryJudge
from tests.support.guard.stage import SLACK_S, GuardProcess, Stage
from tests.support.stalled.services import (
    CLUSTER,
    METRICS,
    STORE,
    WEIGHT,
    WINDOW_S,
    StallableServices,
)

pytestmark = pytest.mark.timeout(600)

STALLS_S = [float(one) for one in os.environ.get("SLIPWAY_STALLS_S", "8").split(",")]
# A candidate that is bad at first sight is found within some windows; a busy machine takes its time.
SHIELDED_WITHIN_S = 25.0
LONG_BAKE_S = 600


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallableServices]:
    """The dependencies, which the tests of this file share."""
    with StallableServices(tmp_path_factory.mktemp("stalls")) as one:
        yield one


@pytest.fixture
def stage(services: StallableServices, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """An InferenceService with version 2 live; the candidate's users are well."""
    for name, value in services.environment().items():
        monkeypatch.setenv(name, value)
    services.become()
    one = services.stage()
    yield one
    one.close()


class SeenTrigger(CanaryStepTrigger):
    """The trigger, whose watch can be looked at."""

    watch: StepWatch | None = None

    def _watch(self) -> StepWatch:
        self.watch = super()._watch()
        return self.watch


class Canary:
    """A canary as a triggerer watches it."""

    def __init__(self, release_run: ReleaseRun) -> None:
        judge = CanaryJudge(release_run.spec.rollout.analysis)
        step = release_run.spec.rollout.steps[0]
        judge.begin_step(step.weight, step.bake_s)
        self.trigger = SeenTrigger(
            release=release_run.model_dump(mode="json"),
            step=0,
            hold=False,
            state=WatchState("watch", judge.to_json(), 0.0).to_dict(),
            aws_conn_id="aws_default",
            kubernetes_conn_id="kubernetes_default",
            metrics_conn_id="slipway_metrics",
        )
        self.event: dict[str, Any] | None = None

    async def run(self) -> None:
        """Watches until the trigger fires."""
        async for event in self.trigger.run():
            self.event = event.payload

    @property
    def windows(self) -> list[dict[str, Any]]:
        """What the judge was shown."""
        watch = self.trigger.watch
        events = [] if watch is None else list(watch.events)
        return [one.data.verdict for one in events if one.kind == "window_judged"]


@asynccontextmanager
async def watched(release_run: ReleaseRun) -> AsyncIterator[Canary]:
    """A canary that has been judged for two windows."""
    canary = Canary(release_run)
    running = asyncio.create_task(canary.run())
    try:
        await until(lambda: len(canary.windows) >= 2, "two windows", 60)
        yield canary
        await until(running.done, "the trigger fires", 120)
        running.result()
    finally:
        running.cancel()


async def until(condition: Callable[[], bool], what: str, limit_s: float) -> None:
    """Waits for a condition without holding the event loop."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit:
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {limit_s:.0f} s: {what}")


@pytest.mark.parametrize("harm", [{"errors": 0.5}, {"slow": True}], ids=["errors", "slow"])
@pytest.mark.parametrize("part", [STORE, METRICS])
async def test_bad_version_is_taken_back_while_a_dependency_hangs(
    services: StallableServices, stage: Stage, part: str, harm: dict[str, Any]
) -> None:
    """Neither the object store nor the metrics source can keep users on a bad version by not answering."""
    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        services.become(**harm)
        with services.stopped(part):
            await until(lambda: stage.candidate_share() == 0, "weight 0 during the stall", SHIELDED_WITHIN_S)
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"
    assert_watched(canary)


async def test_bad_version_is_taken_back_as_soon_as_the_cluster_answers(
    services: StallableServices, stage: Stage
) -> None:
    """The judge goes on while the cluster hangs, and the weight is 0 soon after the cluster is back."""
    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        with services.stopped(CLUSTER):
            services.become(errors=0.5)
            await until(lambda: canary.windows[-1]["status"] == "fail", "the verdict", SHIELDED_WITHIN_S)
        await until(lambda: stage.candidate_share() == 0, "weight 0", SLACK_S)
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"


async def test_bad_version_is_taken_back_while_airflow_hangs(
    services: StallableServices, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that has begun asks Airflow for nothing: no connection is looked up to judge or to shield."""
    answers = threading.Event()

    def hang(conn_id: str) -> Any:
        answers.wait(SHIELDED_WITHIN_S + SLACK_S)
        raise AssertionError(f"{conn_id} was looked up in the middle of the watch")

    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        monkeypatch.setattr(BaseHook, "get_connection", hang)
        services.become(errors=0.5)
        await until(lambda: stage.candidate_share() == 0, "weight 0", SHIELDED_WITHIN_S)
    answers.set()
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"


@pytest.mark.parametrize("stall_s", STALLS_S)
@pytest.mark.parametrize("part", [STORE, CLUSTER])
async def test_good_version_outlives_a_dependency_that_hangs(
    services: StallableServices, stage: Stage, part: str, stall_s: float, tmp_path: Any
) -> None:
    """It is watched on, neither the judge nor the guard ends it, no step ends during the stall, and then it passes."""
    bake_s = 4
    guard = GuardProcess(services.emulator.kubeconfig, tmp_path, "--namespace", stage.namespace)
    try:
        async with watched(services.release_run(stage, bake_s)) as canary:
            with services.stopped(part):
                seen, ends = len(canary.windows), time.monotonic() + stall_s
                await until(lambda: time.monotonic() > ends, "the stall's end", stall_s + 5)
                assert canary.event is None
                assert len(canary.windows) - seen >= stall_s / WINDOW_S / 4
        assert canary.event is not None
        assert (canary.event["decision"], canary.event["error"]) == ("advance", None)
        assert stage.candidate_share() == WEIGHT
        assert "canary_ended" not in guard.told()
        assert_watched(canary)
        await until(lambda: is_shown(canary, "advance"), "pages are told of every window and of the end", 30)
    finally:
        guard.kill()


def is_shown(canary: Canary, decision: str) -> bool:
    """Return whether the document for pages has every window that was judged, and how the step ended."""
    document = read_live(ModelStoreHook("slipway"), canary.trigger.release["model"])
    if document is None or document.decision != decision:
        return False
    assert document.release_id == canary.trigger.release["release_id"]
    assert document.weight_observed == WEIGHT
    return [one.status for one in document.windows] == [one["status"] for one in canary.windows]


@pytest.mark.parametrize("stall_s", STALLS_S)
async def test_who_is_blind_for_long_does_not_pass(
    services: StallableServices, stage: Stage, stall_s: float
) -> None:
    """A version whose metrics hang for more windows than the plan allows is taken back, good as it may be."""
    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        with services.stopped(METRICS):
            limit_s = max(stall_s, SHIELDED_WITHIN_S)
            await until(lambda: stage.candidate_share() == 0, "weight 0", limit_s)
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"


def assert_watched(canary: Canary) -> None:
    """No window is longer than what can have been watched in one, and the bake is the sum of them."""
    watch = canary.trigger.watch
    assert watch is not None
    seconds = [one["window"]["seconds"] for one in canary.windows if one["window"] is not None]
    assert max(seconds) <= 2 * WINDOW_S + 2 + 0.5
    assert watch.elapsed_s == pytest.approx(sum(seconds))
