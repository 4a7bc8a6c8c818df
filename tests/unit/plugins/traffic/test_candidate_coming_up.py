"""A candidate whose pods do not come up, as the watch of its first step meets it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slipway.release_run import ReleaseRun
from slipway_core.errors import CanaryRefusedError
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import CANDIDATE_URI
from tests.support.plugins.watching import HEALTHY, Live, LiveObjectDouble, watch
from tests.support.rollout.pod_statuses import UNSCHEDULABLE, container, crashed, pod
from tests.support.waiting import until

CANDIDATE = "digits-predictor-00002"


class UntoldModel(KnativeModel):
    """KServe and Knative say "deploying" of a version that does not come up, as they do for as long as pods restart."""

    def as_object(self) -> dict[str, Any]:
        """The InferenceService without a word of a failure."""
        found = super().as_object()
        found["status"]["modelStatus"] = {"transitionStatus": "InProgress"}
        return found


@pytest.fixture
def never_up() -> KnativeModel:
    """Version 2 is live; version 3 does not come up."""
    model = UntoldModel(unloadable=frozenset({CANDIDATE_URI}))
    model.create(
        {
            "metadata": {},
            "spec": {"predictor": {"model": {"storageUri": CANDIDATE_URI.replace("/3/", "/2/")}}},
        }
    )
    model.settle()
    return model


async def test_what_the_candidate_waits_for_is_shown_and_its_crashes_end_the_wait(
    release_run: ReleaseRun, never_up: KnativeModel
) -> None:
    """First no node has room, which pages say; then the server exits at load, and its last word is the error's."""
    shown = LiveObjectDouble()
    watched, service, _ = watch(release_run, never_up, HEALTHY, live=shown)
    service.shown_pods = [pod(conditions=(UNSCHEDULABLE,), revision=CANDIDATE, uri=CANDIDATE_URI)]
    running = asyncio.create_task(watched.run())
    await until(lambda: any("Insufficient nvidia.com/gpu" in one.waiting for one in shown.written))
    service.shown_pods = [
        pod(crashed(3, said="no backend"), container(), revision=CANDIDATE, uri=CANDIDATE_URI)
    ]
    with pytest.raises(CanaryRefusedError, match=r"kserve-container.*3 times.*exit code 1.*no backend"):
        await running
    assert never_up.share(CANDIDATE_URI) == 0


async def test_a_weight_that_is_reached_waits_for_nothing(release_run: ReleaseRun, live: Live) -> None:
    """What was waited for is shown no longer."""
    shown = LiveObjectDouble()
    watched, _, _ = watch(release_run, live(), HEALTHY, live=shown)
    assert await watched.run() == "advance"
    await until(lambda: bool(shown.written) and shown.written[-1].decision == "advance")
    assert shown.written[-1].waiting == ""
