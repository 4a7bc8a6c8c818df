"""Airflow dies and hangs while its releases lead users to a candidate."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from slipway_core.rollout.observation import Observed
from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.demo.traffic import TrafficClient
from tests.support.e2e.airflow_processes import SCHEDULER, TRIGGERER, AirflowProcesses
from tests.support.e2e.release_files import ORPHANED, SURVIVING
from tests.support.e2e.running_sandbox import RELEASE_DAG, Ended, RunningSandbox

RATE_RPS = 30.0
# The guard looks every second and counts only what it has seen, which on a busy machine is late.
GUARD_SLACK_S = 10.0
_OTHERS_LIMIT_S = 1080.0
# Airflow has to start again in between.
_END_LIMIT_S = 600.0


@dataclass(frozen=True)
class SurvivingStory:
    """In the canary of version 2 the triggerer is killed, and when another has taken over, the scheduler.

    `percents` are the candidate's weights when each was killed.
    """

    percents: list[int | None]
    second: Ended
    service: Observed
    traffic: Traffic
    lease_left: bool


@dataclass(frozen=True)
class OrphanedStory:
    """While version 3 fails users in its canary the scheduler dies and all else of Airflow hangs, past the lease's end.

    `renewed_at` is when the lease was last renewed, `safe_at` when the candidate was seen to have no user any more;
    both in unix seconds.
    """

    renewed_at: float
    safe_at: float
    back_at: float
    third: Ended
    service: Observed
    traffic: Traffic
    lease_left: bool


@dataclass(frozen=True)
class OutageStory:
    """Both, one after the other."""

    surviving: SurvivingStory
    orphaned: OrphanedStory


def outage_story(sandbox: RunningSandbox, quieter: threading.Event) -> OutageStory:
    """Two models; their releases wait for a person until the machine is quieter, and have no clients before."""
    for model, run_id in [(model, _started(sandbox, model, 1)) for model in (SURVIVING, ORPHANED)]:
        sandbox.ended(model, 1, run_id)
    surviving_id = _started(sandbox, SURVIVING, 2, wait_for_approval=True)
    orphaned_id = _started(sandbox, ORPHANED, 3, wait_for_approval=True)
    for run_id in (surviving_id, orphaned_id):
        sandbox.await_question(run_id)
    sandbox.wait(lambda: quieter.is_set() or None, "most other stories end", _OTHERS_LIMIT_S)
    airflow = AirflowProcesses(sandbox.settings)
    with sandbox.traffic(SURVIVING, RATE_RPS) as clients:
        sandbox.await_answers(clients)
        surviving = _survives(sandbox, airflow, surviving_id, clients)
    with sandbox.traffic(ORPHANED, RATE_RPS) as clients:
        sandbox.await_answers(clients)
        return OutageStory(surviving, _is_orphaned(sandbox, airflow, orphaned_id, clients))


def _started(sandbox: RunningSandbox, model: str, version: int, **form: Any) -> str:
    """Land a version as the demo's of this number, and start its release."""
    sandbox.land(model, version)
    return sandbox.start(model, version, **form)


def _survives(
    sandbox: RunningSandbox, airflow: AirflowProcesses, run_id: str, clients: TrafficClient
) -> SurvivingStory:
    sandbox.airflow.answer(RELEASE_DAG, run_id, "rollout.approve", "Approve")
    percents = [_killed(sandbox, airflow, TRIGGERER), _killed(sandbox, airflow, SCHEDULER)]
    second = sandbox.ended(SURVIVING, 2, run_id, _END_LIMIT_S)
    sandbox.await_answers(clients, 4)
    service = sandbox.service(SURVIVING)
    assert service is not None
    return SurvivingStory(
        percents, second, service, clients.traffic(), lease_left=sandbox.lease(SURVIVING) is not None
    )


def _is_orphaned(
    sandbox: RunningSandbox, airflow: AirflowProcesses, run_id: str, clients: TrafficClient
) -> OrphanedStory:
    sandbox.airflow.answer(RELEASE_DAG, run_id, "rollout.approve", "Approve")
    sandbox.wait(lambda: clients.traffic().failures or None, "the candidate fails a user")
    with airflow.dead_and_hanging():
        lease = sandbox.lease(ORPHANED)
        assert lease is not None
        assert lease.renewed_at is not None
        sandbox.wait(lambda: _is_safe(sandbox, ORPHANED), "the guard takes the candidate to 0 %", 60)
        safe_at = time.time()
    back_at = time.time()
    third = sandbox.ended(ORPHANED, 3, run_id, _END_LIMIT_S)
    sandbox.await_answers(clients, 4)
    service = sandbox.service(ORPHANED)
    assert service is not None
    return OrphanedStory(
        renewed_at=lease.renewed_at.timestamp(),
        safe_at=safe_at,
        back_at=back_at,
        third=third,
        service=service,
        traffic=clients.traffic(),
        lease_left=sandbox.lease(ORPHANED) is not None,
    )


def _killed(sandbox: RunningSandbox, airflow: AirflowProcesses, name: str) -> int | None:
    """Kill a part of Airflow when the candidate has users; return its weight at that moment, once the part is back.

    A triggerer is back when the canary's lease is renewed again, a scheduler when it runs.
    """
    sandbox.wait(lambda: _has_users(sandbox) or None, f"the candidate has users before {name} is killed")
    service = sandbox.service(SURVIVING)
    killed, at = airflow.pid(name), airflow.kill(name)

    def is_back() -> bool | None:
        if name != TRIGGERER:
            return airflow.has_restarted(name, killed) or None
        lease = sandbox.lease(SURVIVING)
        renewed = lease is not None and lease.renewed_at is not None and lease.renewed_at.timestamp() > at
        return renewed or None

    sandbox.wait(is_back, f"{name} is back")
    return None if service is None else service.canary_percent


def _has_users(sandbox: RunningSandbox) -> bool:
    service = sandbox.service(SURVIVING)
    return service is not None and bool(service.canary_percent) and service.share(service.latest_created) > 0


def _is_safe(sandbox: RunningSandbox, model: str) -> bool | None:
    service = sandbox.service(model)
    return (
        service is not None and service.canary_percent == 0 and service.share(service.latest_created) == 0
    ) or None
