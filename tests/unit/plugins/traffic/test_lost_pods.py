"""A candidate that fails while the cluster takes its pods away, as it is watched."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from slipway.release_run import ReleaseRun
from slipway.traffic.step_watcher import StepWatch
from slipway_core.rollout.pods.disruption import PodState
from tests.support.canary.doubles import CANDIDATE_URI, ServiceDouble
from tests.support.plugins.watching import FAILING, HEALTHY, Live, judged, newest, watch
from tests.support.waiting import until


def pod(name: str, revision: str, *conditions: tuple[str, str, str]) -> dict[str, Any]:
    """A pod of the candidate, as the API gives it."""
    return {
        "metadata": {"name": name, "uid": name, "labels": {"serving.knative.dev/revision": revision}},
        "status": {
            "conditions": [dict(zip(("type", "status", "reason"), one, strict=True)) for one in conditions]
        },
    }


def take_away(service: ServiceDouble, watched: StepWatch) -> None:
    """Have the cluster preempt one of the candidate's two pods."""
    revision = watched._candidate
    service.shown_pods = [
        pod("a", revision, ("DisruptionTarget", "True", "PreemptionByScheduler")),
        pod("b", revision, ("Ready", "True", "")),
    ]


async def test_what_the_cluster_takes_away_is_held_and_a_fault_that_stays_is_not(
    release_run: ReleaseRun, live: Live
) -> None:
    """Some windows are not judged while a pod is taken away; a candidate that fails on is taken back all the same."""
    model = live()
    watched, service, _ = watch(release_run, model, FAILING)
    running = asyncio.create_task(watched.run())
    await until(lambda: bool(watched._candidate))
    await until(lambda: watched._cluster.pods._before is not None)
    take_away(service, watched)
    assert await running == "roll_back"
    reasons = [one.data.verdict["reason"] for one in judged(watched)]
    held = [reason for reason in reasons if reason.startswith("Held: ")]
    assert len(held) == watched.judge.policy.disruption_grace_windows
    assert "a: PreemptionByScheduler" in held[0]
    assert model.share(CANDIDATE_URI) == 0
    assert newest(watched, "rollback_started").by == "judge"


async def test_pods_that_cannot_be_read_excuse_nothing(release_run: ReleaseRun, live: Live) -> None:
    """No answer about the pods is no excuse for the model."""
    watched, service, _ = watch(release_run, live(), FAILING)
    service.shown_pods = None
    assert await watched.run() == "roll_back"
    assert not any("Held" in one.data.verdict["reason"] for one in judged(watched))


async def test_pods_that_hang_cost_a_second_once(release_run: ReleaseRun, live: Live) -> None:
    """What protects users waits for the cluster's word about pods no longer than a second, and once."""
    watched, service, _ = watch(release_run, live(), FAILING)
    hangs: list[str] = []
    over = threading.Event()

    def hang(revision: str) -> tuple[PodState, ...]:
        hangs.append(revision)
        over.wait(120)
        return ()

    service.pod_states = hang  # type: ignore[method-assign]
    began = time.monotonic()
    try:
        assert await watched.run() == "roll_back"
        assert time.monotonic() - began < 60
    finally:
        over.set()
    assert len(hangs) == 1


async def test_a_healthy_candidate_is_not_asked_about(release_run: ReleaseRun, live: Live) -> None:
    """The pods are looked at before the step, and then only where the candidate fails more than stable."""
    watched, service, _ = watch(release_run, live(), HEALTHY)
    looks: list[str] = []
    service.pod_states = lambda revision: looks.append(revision) or ()  # type: ignore[method-assign,func-returns-value]
    assert await watched.run() == "advance"
    assert len(looks) == 1
