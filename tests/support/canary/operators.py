"""Operators of a release of version 3 over version 2, and what the record says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.preview import ShowCandidateOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.record.fold import ReleaseState
from slipway_core.record.kinds import WeightIntended
from slipway_core.record.requirements import GATES, SMOKE_TEST_GATE
from slipway_core.rollout.next_action import StartCanary
from tests.support.canary.doubles import ServiceDouble

Operate = Callable[..., Any]


def stable_uri(release_run: ReleaseRun) -> str:
    assert release_run.stable is not None
    return release_run.stable.storage_uri


def record(store: ModelStoreHook) -> ReleaseRecord:
    return ReleaseRecord(store, "digits", 3, "digits-3")


def state(store: ModelStoreHook) -> ReleaseState:
    return record(store).state()


def stages(store: ModelStoreHook) -> list[tuple[str, str]]:
    """Return name and outcome of each stage after the gates."""
    found = [(stage.name, stage.outcome) for stage in state(store).stages]
    return [one for one in found if one[0] not in (SMOKE_TEST_GATE, *GATES)]


def lead_users(service: ServiceDouble, release_run: ReleaseRun, store: ModelStoreHook, weight: int) -> None:
    """Bring the candidate to a weight, as shift_traffic does."""
    record(store).append(
        WeightIntended(
            weight=weight, storage_uri=release_run.storage_uri, stable_storage_uri=stable_uri(release_run)
        )
    )
    reconcile(service, StartCanary(release_run.storage_uri, weight), timeout_s=60)  # type: ignore[arg-type]


def resumed(release_run: ReleaseRun, decision: str, step: int = 0, events: tuple[Any, ...] = ()) -> None:
    judge = CanaryJudge(AnalysisPolicy()).to_json()
    event = {
        "decision": decision,
        "judge": judge,
        "elapsed_s": 5.0,
        "events": list(events),
        "error": None,
    }
    ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json()).resume({}, event, step)  # type: ignore[arg-type]


def show(release_run: ReleaseRun, generation: object) -> dict[str, Any]:
    operator = ShowCandidateOperator(
        task_id="show", release=release_run.model_dump_json(), generation=str(generation)
    )
    shown: dict[str, Any] = operator.execute({})  # type: ignore[arg-type]
    return shown


def first_step(release_run: ReleaseRun, generation: object) -> CanaryStepTrigger:
    """Return the trigger of the canary's first step, as a triggerer makes it of what was stored."""
    operator = ShiftTrafficOperator(
        task_id="task", release=release_run.model_dump_json(), generation=str(generation)
    )
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    return CanaryStepTrigger(**deferred.value.trigger.serialize()[1])
