"""The journal of a watch, in the bucket that pods write to as well."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from airflow.sdk.exceptions import TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.canary import ShiftTrafficOperator
from slipway.release_run import ReleaseRun
from slipway.traffic.checkpoint import CanaryJournal, WatchOwner, WatchState
from slipway.triggers.canary import CanaryStepTrigger
from slipway_core.bucket_layout import watch_journal_key
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.totals import Totals
from slipway_core.record.events import PendingEvent
from slipway_core.record.kinds import Approved, RollbackStarted, WeightObserved
from tests.support.canary.doubles import JournalDouble, ServiceDouble
from tests.support.plugins.watching import HEALTHY, watch


def begun(release_run: ReleaseRun) -> CanaryStepTrigger:
    """The trigger of the first step, as a triggerer makes it."""
    with pytest.raises(TaskDeferred) as deferred:
        ShiftTrafficOperator(task_id="task", release=release_run.model_dump_json()).execute({})  # type: ignore[arg-type]
    return CanaryStepTrigger(**deferred.value.trigger.serialize()[1])


def owner(release_run: ReleaseRun, attempt: int = 1) -> WatchOwner:
    return WatchOwner(release_run.release_id, release_run.model, release_run.version, "canary", attempt, 0)


def test_what_lies_under_the_evidence_is_not_taken_over(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """A pod that writes the whole journal of this very watch where pods may write changes nothing about it."""
    trigger = begun(release_run)
    forged = WatchState(
        trigger.state["watch"],
        trigger.state["judge"],
        500.0,
        [PendingEvent.now(WeightObserved(weight=99, traffic={}))],
        owner=owner(release_run),
    )
    store.write_json(f"{release_run.evidence_prefix}canary-watch.json", forged.to_dict())
    watched = trigger._watch()
    asyncio.run(watched._go_on())
    assert (watched.elapsed_s, watched.events) == (0.0, [])
    assert not watch_journal_key(release_run.model).startswith(("models/", "incoming/", "work/", "staging/"))


def test_a_trigger_that_is_made_anew_goes_on_from_its_journal(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Its own journal, where Airflow alone writes, gives it its time, its judge and its events back."""
    trigger = begun(release_run)
    judge = CanaryJudge.from_json(trigger.state["judge"])
    judge.unjudged = Totals(windows=1, candidate_requests=7)
    back = PendingEvent.now(RollbackStarted(reason="errors", by="judge", stable_storage_uri=""))
    state = WatchState(trigger.state["watch"], judge.to_json(), 5.0, [back])
    assert CanaryJournal(store, watch_journal_key("digits"), owner(release_run)).save(state)
    watched = trigger._watch()
    asyncio.run(watched._go_on())
    assert (watched.elapsed_s, watched.events) == (5.0, [back])
    assert watched.judge.unjudged.candidate_requests == 7


@pytest.mark.parametrize("harm", ["approved", "another try", "no judge"])
def test_a_journal_that_is_not_of_this_watch_begins_the_step_anew(
    harm: str, release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Whoever got it there: the judge has seen nothing, no time has passed, and nothing goes into the record."""
    trigger = begun(release_run)
    event = PendingEvent.now(WeightObserved(weight=20, traffic={}))
    if harm == "approved":
        event = PendingEvent.now(Approved(before="promotion", by="bob", manifest_sha256="a" * 64))
    judge = "{}" if harm == "no judge" else trigger.state["judge"]
    state = WatchState(trigger.state["watch"], judge, 500.0, [event])
    whose = owner(release_run, attempt=2 if harm == "another try" else 1)
    assert CanaryJournal(store, watch_journal_key("digits"), whose).save(state)
    watched = trigger._watch()
    asyncio.run(watched._go_on())
    assert (watched.elapsed_s, watched.events) == (0.0, [])


def test_an_honest_watch_reads_what_it_saved(
    release_run: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """All that a watch tells is of the kinds that its journal may hold: broken off, it is gone on with."""
    assert service.model is not None
    journal = CanaryJournal(store, watch_journal_key("digits"), owner(release_run))
    bad = ((80, 0), (20, 20))
    watched, _, _ = watch(release_run, service.model, bad, journal=cast(JournalDouble, journal))
    assert asyncio.run(watched.run()) == "roll_back"
    again, _, _ = watch(release_run, service.model, HEALTHY, journal=cast(JournalDouble, journal))
    asyncio.run(again._go_on())
    kinds = [event.kind for event in again.events]
    assert {"step_finished", "rollback_started", "window_judged", "weight_observed"} <= {*kinds}
    assert again.elapsed_s == watched.elapsed_s
