"""What a person reads of a canary beside its record: the task's log, and the run's note."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import TriggerEvent

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators import canary_watch
from slipway.operators.canary import ShiftTrafficOperator
from slipway.release_run import ReleaseRun
from slipway.triggers.canary import Seen
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.metrics.samples import Sample, Window
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import WindowJudged
from tests.support.canary.doubles import ServiceDouble
from tests.support.release.proofs import step_passed


def judged(judge: CanaryJudge) -> dict[str, Any]:
    """Return the event of a window that the judge has looked at."""
    verdict = judge.observe(Window(5.0, Sample(100, 0), Sample(30, 0)))
    data = WindowJudged(
        verdict=verdict.to_dict(), candidate_requests=30, candidate_errors=0, first_bad_at=None
    )
    return PendingEvent.now(data).to_document()


def test_a_steps_lines_stay_when_the_next_trigger_replaces_its_log(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line for each window of the step before; and the note says which step comes."""
    caplog.set_level(logging.INFO, logger=canary_watch.__name__)
    step_passed(store, release_run, release_run.spec.rollout.steps[0].weight)
    judge, notes = CanaryJudge(AnalysisPolicy()), list[str]()
    judge.begin_step(5, 10.0)
    events = [judged(judge), judged(judge)]
    event = {
        "decision": "advance",
        "judge": judge.to_json(),
        "elapsed_s": 10.0,
        "events": events,
        "error": None,
    }
    context: Any = {"ti": SimpleNamespace(try_number=1, xcom_push=lambda _key, note: notes.append(note))}
    with pytest.raises(TaskDeferred):
        ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json()).resume(context, event, 0)
    assert len([line for line in caplog.messages if "|   5 % | " in line and "| evidence" in line]) == 2
    steps = release_run.spec.rollout.steps
    assert notes[-1].startswith(f"digits 3: canary at {steps[1].weight} %, step 2 of {len(steps)}")


def test_what_airflow_logs_of_a_fired_trigger_is_short() -> None:
    """The events are for the record; who reads the log has seen their lines."""
    seen = Seen(
        decision="advance",
        judge="x" * 1000,
        elapsed_s=1.0,
        events=[{"kind": "window_judged"}] * 3,
        error=None,
    )
    fired = TriggerEvent(seen)
    assert repr(fired) == "TriggerEvent<advance, 3 events for the record>"
    assert fired.model_dump()["payload"] == dict(seen)
