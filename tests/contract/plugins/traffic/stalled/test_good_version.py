"""The canary of a good version, whose dependencies hang: it passes afterwards, unless nobody has seen it for long.

`SLIPWAY_STALLS_S=10,45,120` runs it through stalls of these seconds; by default they last some windows.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.live_reader import read_live
from tests.support.guard.stage import GuardProcess, Stage
from tests.support.stalled.services import CLUSTER, METRICS, STORE, WEIGHT, WINDOW_S, StallableServices
from tests.support.stalled.watched import (
    LONG_BAKE_S,
    SHIELDED_WITHIN_S,
    Canary,
    assert_watched,
    watched,
)
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)

STALLS_S = [float(one) for one in os.environ.get("SLIPWAY_STALLS_S", "8").split(",")]


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
                await until(lambda: time.monotonic() > ends, "the stall's end", stall_s + 60)
                assert canary.event is None
                assert len(canary.windows) - seen >= stall_s / WINDOW_S / 4
        assert canary.event is not None
        assert (canary.event["decision"], canary.event["error"]) == ("advance", None)
        assert stage.candidate_share() == WEIGHT
        assert "canary_ended" not in guard.events()
        assert_watched(canary)
        await until(lambda: is_shown(canary, "advance"), "pages are told of every window and of the end")
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
async def test_who_sees_nothing_for_long_does_not_pass(
    services: StallableServices, stage: Stage, stall_s: float
) -> None:
    """A version whose metrics hang for more windows than the plan allows is taken back, good as it may be."""
    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        with services.stopped(METRICS):
            limit_s = max(stall_s, SHIELDED_WITHIN_S)
            await until(lambda: stage.candidate_share() == 0, "weight 0", limit_s)
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"
