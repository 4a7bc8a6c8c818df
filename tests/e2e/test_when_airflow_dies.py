"""Airflow's own processes die, or hang, in the middle of a canary: the release goes on, or the guard ends it."""

from __future__ import annotations

from slipway_sandbox.demo.chapters import answering_at_the_end
from slipway_sandbox.demo.counts import CandidateSpan
from tests.support.e2e.endings import assert_ended, assert_on_stable, rolled_back_by
from tests.support.e2e.outage_stories import GUARD_SLACK_S, OutageStory
from tests.support.e2e.release_files import ORPHANED_LEASE_S
from tests.support.e2e.running_sandbox import Ended


def test_release_outlives_its_triggerer_and_its_scheduler(outage: OutageStory) -> None:
    """Both are killed while users are on the candidate; others take over, and the version is promoted."""
    story = outage.surviving
    assert story.percents == [50, 50]
    assert_ended(story.second, "promoted", run="success")
    assert story.service.storage_uri == story.second.state.storage_uri
    assert story.service.alone(story.service.latest_ready)
    assert set(answering_at_the_end(story.traffic)) == {"2"}


def test_no_request_fails_because_the_triggerer_or_the_scheduler_died(outage: OutageStory) -> None:
    """Serving does not pass through Airflow: every client is answered all the time."""
    assert outage.surviving.traffic.failures == []


def test_guard_ends_the_canary_when_airflow_is_dead_or_hangs(outage: OutageStory) -> None:
    """A dead scheduler, a triggerer and an API server that hang: the lease runs out, and the candidate has no users."""
    story = outage.orphaned
    assert story.safe_at < story.back_at
    assert story.safe_at < story.renewed_at + ORPHANED_LEASE_S + GUARD_SLACK_S


def test_no_user_meets_the_bad_version_when_the_lease_has_run_out(outage: OutageStory) -> None:
    """The candidate fails users until the guard acts, and nobody afterwards: not when Airflow is back either."""
    story = outage.orphaned
    begin = story.third.times("weight_intended")[0].timestamp()
    over = story.renewed_at + ORPHANED_LEASE_S + GUARD_SLACK_S
    assert story.traffic.failures
    assert [one for one in story.traffic.failures if one.received > over] == []
    assert set(story.traffic.failed_on([CandidateSpan(3, begin, over)])) == {3}


def test_airflow_that_comes_back_respects_the_guard(outage: OutageStory) -> None:
    """The triggerer that hung finds its canary ended; the run rolls back in its name, and the record says why."""
    story = outage.orphaned
    assert_ended(story.third, "rolled_back", run="failed")
    assert rolled_back_by(story.third) == "guard"
    assert "lease" in (story.third.state.reason or "")
    assert_on_stable(story.service, story.third)
    assert set(answering_at_the_end(story.traffic)) == {"1"}


def test_records_are_complete_and_consistent(outage: OutageStory) -> None:
    """Whatever died: one beginning, one end, no stage left open, nothing twice, no lease left."""
    for ended in (outage.surviving.second, outage.orphaned.third):
        assert_complete(ended)
    assert not outage.surviving.lease_left
    assert not outage.orphaned.lease_left


def assert_complete(ended: Ended) -> None:
    """Assert that a record says once how its release began and ended, and that every stage is over."""
    kinds = [event.kind for event in ended.events]
    for kind in ("release_started", "release_finished", ended.state.outcome):
        assert kinds.count(kind) == 1, kind
    assert kinds[-1] == "release_finished"
    assert [stage.name for stage in ended.state.stages if stage.outcome == "running"] == []
