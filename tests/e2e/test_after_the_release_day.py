"""Freezes, rejected versions, four eyes and deleted files, under Airflow's own scheduler."""

from __future__ import annotations

import hashlib

import pytest

from slipway_core.record.kinds import RaiseHeld, VersionUnrejected
from tests.support.e2e.endings import assert_ended, assert_on_stable, rolled_back_by
from tests.support.e2e.operations_stories import OLD_FILES, FourEyesStory, FrozenStory
from tests.support.e2e.running_sandbox import RunningSandbox

# --- four eyes, and a version that is rejected ---


def test_who_starts_a_release_does_not_approve_it(four_eyes: FourEyesStory) -> None:
    """The own agreement leaves nothing in the record and the question open; the colleague's no ends the release."""
    assert four_eyes.own_answer.approvals == ()
    assert four_eyes.own_answer.outcome == "open"
    assert_ended(four_eyes.refused, "refused", run="failed", refused_by="approve")
    assert four_eyes.service is None


def test_a_rejected_version_is_left_alone_by_event_and_sweep(four_eyes: FourEyesStory) -> None:
    """Announced again as one that starts by itself, it starts nothing, and nothing is written."""
    assert four_eyes.refused.state.rejection is not None
    assert four_eyes.sweep.state == "success"
    assert four_eyes.by_event == four_eyes.by_sweep == list(four_eyes.refused.events)
    assert four_eyes.started_by_itself is None


def test_whose_release_was_rejected_does_not_lift_that(
    four_eyes: FourEyesStory, sandbox: RunningSandbox
) -> None:
    """A colleague does; the record says who, and what was in front of them."""
    user, colleague = sandbox.settings.airflow_user, sandbox.settings.airflow_colleague
    assert four_eyes.own_word.state == "failed"
    assert f"{user} may not lift the rejection" in four_eyes.own_word_log
    assert four_eyes.other_word.state == "success"
    assert four_eyes.lifted.rejection is None
    (event,) = [one for one in sandbox.events(four_eyes.lifted.model, 1) if one.kind == "version_unrejected"]
    assert isinstance(event.data, VersionUnrejected)
    assert event.data.by == colleague
    assert any(one.address.endswith("/validation.html") for one in event.data.shown)


# --- freezes ---


@pytest.mark.nightly
def test_a_freeze_holds_a_start_and_thawed_it_goes_on(frozen: FrozenStory, sandbox: RunningSandbox) -> None:
    """The release waits in the triggerer and has no record; when the freeze is lifted it begins, and comes to users."""
    assert frozen.waited == "deferred"
    assert f"is frozen by {sandbox.settings.airflow_user} until" in frozen.admit_log
    assert frozen.events_while_frozen == []
    assert frozen.thawed.state == "success"
    assert frozen.third.state.exposed
    assert frozen.thawed.start is not None
    assert frozen.third.times("release_started")[0] >= frozen.thawed.start


@pytest.mark.nightly
def test_a_freeze_holds_a_raise_but_not_a_rollback(frozen: FrozenStory) -> None:
    """The candidate stays at its weight, and is taken back by a person long before the freeze ends."""
    (held,) = [one.data for one in frozen.third.events if isinstance(one.data, RaiseHeld)]
    assert held.weight == 80
    assert "audit" in held.hold
    weights = [one.data.weight for one in frozen.third.events if one.kind == "weight_observed"]
    assert max(weights) == 50
    assert frozen.back.state == "success"
    assert rolled_back_by(frozen.third) == "a person"
    assert frozen.third.times("rolled_back")[0] < frozen.frozen_until
    assert_on_stable(frozen.service, frozen.third)


# --- old files ---


@pytest.mark.nightly
def test_a_dry_run_shows_and_deletes_nothing(frozen: FrozenStory) -> None:
    """Its page names the version; every file is there afterwards."""
    assert frozen.collected.dry.state == "success"
    assert "its deletion was begun" in frozen.collected.dry_page
    assert frozen.collected.after_dry == OLD_FILES


@pytest.mark.nightly
def test_a_deletion_that_is_killed_in_the_middle_is_finished(frozen: FrozenStory) -> None:
    """By the next try: what was left goes, evidence and tombstone stay."""
    collected = frozen.collected
    assert 0 < collected.left_when_killed < OLD_FILES
    assert collected.tries > 1
    assert collected.real.state == "success"
    names = sorted(key.partition("/90/")[2] for key in collected.left)
    assert names == ["deleted.json", "evidence/deleted-manifest.json", "evidence/r/release.json"]
    (result,) = collected.results["versions"]
    assert (result["version"], result["outcome"]) == (90, "deleted")


@pytest.mark.nightly
def test_the_first_deletion_keeps_who_agreed_to_which_page(
    frozen: FrozenStory, sandbox: RunningSandbox
) -> None:
    """Two people, and the digests of the plan and of the page as they were shown."""
    collected = frozen.collected
    agreed = collected.approval
    assert (agreed.started_by, agreed.approved_by) == (
        sandbox.settings.airflow_user,
        sandbox.settings.airflow_colleague,
    )
    digests = [hashlib.sha256(content).hexdigest() for content in (collected.page, collected.plan)]
    assert [one.sha256 for one in agreed.shown] == digests


@pytest.mark.nightly
def test_what_is_live_and_what_was_live_before_stay(frozen: FrozenStory) -> None:
    """No other version lost a file, and no client missed an answer."""
    assert frozen.collected.after == frozen.collected.before
    for version in (1, 2, 3):
        assert any(f"/{version}/repository/" in key for key in frozen.collected.after)
    assert "live before the live one" in frozen.collected.dry_page
    assert frozen.traffic.failures == []
    assert frozen.service.storage_uri == frozen.second.state.storage_uri
