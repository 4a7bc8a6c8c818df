"""A canary as a triggerer watches it, whose dependencies can be stopped meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from slipway.release_context import ReleaseContext
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import WatchState
from slipway.traffic.step_watcher import StepWatch
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.canary.judge import CanaryJudge
from tests.support.stalled.services import WINDOW_S
from tests.support.waiting import until

# A candidate that is bad at first sight is found within some windows; a busy machine takes its time.
SHIELDED_WITHIN_S = 25.0
LONG_BAKE_S = 600


class SeenTrigger(CanaryStepTrigger):
    """The trigger, whose watch can be looked at."""

    watch: StepWatch | None = None

    def _permit(self, parts: ReleaseContext) -> Callable[[int], None]:
        """There is no record; what is stalled here is asked for nothing before the first percent."""
        return lambda weight: None

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
        await until(lambda: len(canary.windows) >= 2, "two windows")
        yield canary
        await until(running.done, "the trigger fires", 120)
        running.result()
    finally:
        running.cancel()


def assert_watched(canary: Canary) -> None:
    """No window is longer than what can have been watched in one, and the bake is the sum of them."""
    watch = canary.trigger.watch
    assert watch is not None
    seconds = [one["window"]["seconds"] for one in canary.windows if one["window"] is not None]
    assert max(seconds) <= 2 * WINDOW_S + 2 + 0.5
    assert watch.elapsed_s == pytest.approx(sum(seconds))
