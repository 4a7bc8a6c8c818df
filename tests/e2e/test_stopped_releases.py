"""Releases that end before their time: stopped, refused, or done by hand; the stable version always stays."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from slipway_sandbox.demo.chapters import answering_at_the_end
from tests.support.e2e.endings import assert_ended, assert_on_stable, rolled_back_by
from tests.support.e2e.release_files import ONE_AT_A_TIME
from tests.support.e2e.stories import SIGNING_KEY, OnCallStory, OneAtATimeStory, OnGpuStory


def test_stopped_run_gives_all_traffic_back(one_at_a_time: OneAtATimeStory) -> None:
    """A run that a person marks as failed in the middle of its canary is rolled back, and its record says by whom."""
    story = one_at_a_time
    assert_ended(story.second, "rolled_back", run="failed")
    assert rolled_back_by(story.second) == "cancellation"
    assert_on_stable(story.service_after_second, story.second)


def test_stopped_run_gives_the_model_free(one_at_a_time: OneAtATimeStory) -> None:
    """After the rollback of a stopped run the lock is gone, and the next release of the model is admitted."""
    assert one_at_a_time.locks_after == []
    assert one_at_a_time.alone.stage("convert") == "passed"


def test_second_release_is_refused(one_at_a_time: OneAtATimeStory) -> None:
    """Where releases do not queue, one that comes during another's canary fails at once and leaves no trace."""
    story = one_at_a_time
    assert story.concurrent.state == "failed"
    assert story.concurrent_events == []
    assert story.lock_meanwhile["version"] == 2


def test_other_signature_is_refused_before_users(one_at_a_time: OneAtATimeStory) -> None:
    """A version that takes other inputs is refused on staging; no user of the stable version notices."""
    story = one_at_a_time
    assert_ended(story.alone, "refused", refused_by="validate")
    assert story.alone.stage("canary") is None


def test_a_refusal_is_told_in_short(one_at_a_time: OneAtATimeStory) -> None:
    """The task's log shows one block and no traceback; the run is named after the version, and its note says why."""
    story = one_at_a_time
    assert "REFUSED: " in story.alone_log
    assert f"/slipway/evidence/{ONE_AT_A_TIME}/3/" in story.alone_log
    assert "Traceback" not in story.alone_log
    assert '"error_detail"' not in story.alone_log
    assert story.alone.run.run_id == f"{ONE_AT_A_TIME}-3-2"
    assert story.alone_note.startswith(f"{ONE_AT_A_TIME} 3: refused by validate. ")
    assert story.service == story.service_after_second
    assert set(answering_at_the_end(story.traffic)) == {"1"}


def test_nobody_is_failed_by_what_was_stopped(one_at_a_time: OneAtATimeStory) -> None:
    """Neither the stopped canary nor the refused releases cost a client one request."""
    assert one_at_a_time.traffic.failures == []
    assert "3" not in one_at_a_time.traffic.last.answered_by


def test_people_are_told_by_signed_messages_while_another_receiver_hangs(
    one_at_a_time: OneAtATimeStory,
) -> None:
    """Airflow's scheduler delivers how each release begins and ends, in order; the one that hangs holds up nobody."""
    documents = []
    for one in one_at_a_time.notices:
        # Long after it was sent: the library's own verification takes five minutes at most.
        sent_at = datetime.fromtimestamp(int(one.headers["webhook-timestamp"]), UTC)
        signature = Webhook(SIGNING_KEY).sign(one.headers["webhook-id"], sent_at, one.body.decode())
        assert one.headers["webhook-signature"] == signature
        documents.append(one.json["data"])
    told = {one["id"]: (one["event"], one["version"]) for one in documents}
    assert sorted(told.values(), key=lambda one: one[1]) == [
        ("started", 1),
        ("promoted", 1),
        ("started", 2),
        ("rolled_back", 2),
        ("started", 3),
        ("refused", 3),
    ]
    second = next(one for one in documents if one["event"] == "rolled_back")
    assert second["release_id"] == one_at_a_time.second.run.run_id
    assert "/dags/model_release/runs/" in second["links"]["Run"]


def test_failed_task_is_followed_by_the_rollback(on_call: OnCallStory) -> None:
    """A person takes the weight to 0 by kubectl: the next step fails, and the release takes everything back."""
    assert_ended(on_call.second, "rolled_back")
    assert on_call.second.stage("canary") == "failed"
    assert rolled_back_by(on_call.second) == "task failure"
    assert_on_stable(on_call.service, on_call.second)
    assert set(answering_at_the_end(on_call.traffic)) == {"1"}
    assert on_call.traffic.failures == []


def test_variant_that_cannot_be_released_is_left_out(on_call: OnCallStory) -> None:
    """Of two conversions beside each other the one that keeps its tolerance is released; the other fails nothing."""
    stages = ("convert-whole", "convert-rough", "choose", "publish")
    assert [on_call.second.stage(name) for name in stages] == ["passed", "left_out", "passed", "passed"]
    parity = {output["output"]: output for output in on_call.rough_of_second["parity"]}
    assert not parity["probabilities"]["pass"]
    assert parity["probabilities"]["worst"]


def test_candidate_is_shown_before_its_first_percent(on_call: OnCallStory) -> None:
    """With a preview the first that is observed is 0 %, at an address of the candidate's own."""
    assert on_call.second.stage("preview") == "passed"
    seen = [event.data for event in on_call.second.events if event.kind == "weight_observed"]
    assert [data.weight for data in seen[:2]] == [0, 50]
    assert seen[0].candidate_url.startswith("http://latest-")


@pytest.mark.nightly
def test_model_that_does_not_load_is_refused(on_gpu: OnGpuStory) -> None:
    """A version that no server can load is refused on staging, with the server's reason; no service comes of it."""
    first = on_gpu.first
    assert_ended(first, "refused", run="failed", refused_by="stage")
    assert "gpu" in (first.state.reason or "").lower()
    assert first.stage("validate") is None
    assert on_gpu.service is None
