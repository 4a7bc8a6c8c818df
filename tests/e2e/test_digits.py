"""Three versions of one model under live traffic: a first one, a better one, a bad one; and their events."""

from __future__ import annotations

import pytest

from slipway_core.bucket_layout import live_key, model_view_key
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.model_fold import version_line
from slipway_sandbox.demo.chapters import answering_at_the_end
from slipway_sandbox.demo.counts import CandidateSpan
from tests.support.e2e.endings import assert_ended
from tests.support.e2e.running_sandbox import Ended, RunningSandbox
from tests.support.e2e.stories import BAD_MESSAGES, DigitsStory

GATES = ["convert", "publish", "smoke_test", "stage", "validate", "benchmark", "canary"]


def test_first_version_goes_live(digits: DigitsStory) -> None:
    """Without a stable version there is no canary: after its gates the first version gets all traffic."""
    assert_ended(digits.first, "promoted", run="success")
    assert [stage.name for stage in digits.first.state.stages] == [*GATES, "promote"]
    assert digits.first.state.canary == ()


def test_version_is_released_by_its_event(digits: DigitsStory) -> None:
    """A version that lands is released by nobody's hand, step after step, and gets all traffic."""
    assert_ended(digits.second, "promoted", run="success")
    assert [(step.weight, step.verdict) for step in digits.second.state.canary] == [
        (20, "pass"),
        (50, "pass"),
        (99, "pass"),
    ]


def test_no_request_fails_because_of_a_release(digits: DigitsStory) -> None:
    """While version 2 is brought in over version 1, every request of every client is answered."""
    counted = digits.traffic_after_second
    assert counted.failures == []
    assert set(counted.last.by_protocol) == {"http", "grpc"}
    assert {"1", "2"} == set(counted.last.answered_by)


def test_version_that_fails_live_is_rolled_back(digits: DigitsStory) -> None:
    """A version that is good offline and bad for some live inputs comes back by itself; users end on version 2."""
    third = digits.third
    assert_ended(third, "rolled_back")
    (begun,) = [event for event in third.events if event.kind == "rollback_started"]
    assert begun.data.by == "judge"
    assert set(answering_at_the_end(digits.traffic)) == {"2"}
    assert digits.service.canary_percent is None
    assert digits.service.storage_uri == digits.third.state.stable_storage_uri
    assert digits.service.alone(digits.service.latest_ready)


def test_only_the_candidate_fails_users(digits: DigitsStory) -> None:
    """Every request that failed was answered by the bad candidate, none by the stable version."""
    begin, end = digits.third.times("weight_intended")[0], digits.third.times("release_finished")[0]
    span = CandidateSpan(3, begin.timestamp(), end.timestamp())
    assert set(digits.traffic.failed_on([span])) == {3}


@pytest.mark.parametrize("which", ["first", "second", "third"])
def test_report_adds_up(digits: DigitsStory, which: str) -> None:
    """What the report says of a release fits together: stages within the release, errors within requests."""
    ended: Ended = getattr(digits, which)
    report = ended.report
    assert report["seconds"] > 0
    assert all(0 <= stage["seconds"] <= report["seconds"] for stage in report["stages"])
    passed = [stage["outcome"] == "passed" for stage in report["stages"]]
    assert all(passed) == (report["outcome"] == "promoted")
    for step in report["canary"]["steps"]:
        assert 0 <= step["candidate_errors"] <= step["candidate_requests"]
        assert step["candidate_requests"] > 0
    bad = report["canary"]["bad_requests_before_rollback"]
    delay_s = report["canary"]["seconds_from_first_bad_answer_to_weight_0"]
    if report["outcome"] == "rolled_back":
        assert bad > 0
        assert 0 < delay_s < 60
    else:
        assert (bad, delay_s) == (None, None)


def test_version_whose_event_was_lost_is_found(digits: DigitsStory) -> None:
    """A version of which the bucket told nobody is found by the sweep, and started under its own run id."""
    assert digits.third_conf["reason"] == "found by the scheduled scan"
    assert (digits.third_conf["model"], digits.third_conf["version"]) == ("digits", 3)


def test_second_release_waits_for_the_first(digits: DigitsStory) -> None:
    """A release that comes while another of its model is in its canary waits, and goes on when that has ended."""
    assert digits.third_waited == "deferred"
    assert digits.third.times("release_started")[0] >= digits.second.times("release_finished")[0]
    assert digits.third.state.stable_storage_uri == digits.second.state.storage_uri


def test_event_that_comes_again_starts_nothing(digits: DigitsStory) -> None:
    """However often a version is announced, during its release and after it, it is released once."""
    assert sorted(run_id.rpartition("-")[0] for run_id in digits.releases) == ["digits-2", "digits-3"]
    assert digits.second.state.attempts == 1
    assert len(digits.second.times("release_started")) == 1


@pytest.mark.parametrize("message", BAD_MESSAGES)
def test_bad_message_is_ignored_with_a_reason(digits: DigitsStory, message: str) -> None:
    """What is malformed, or about something else, is named in the log, and the version beside it is released."""
    reasons = {
        "text": "text that is not JSON",
        "another shape": "an object without `Records`",
        "another object": "announces no model version",
    }
    assert reasons[message] in digits.intake_log
    assert_ended(digits.second, "promoted")


def test_a_person_goes_back_to_an_earlier_version(digits: DigitsStory) -> None:
    """By the form of model_rollback version 1 gets all users again; no request fails, and the reason is on record."""
    assert digits.by_hand.state == "success"
    tried = [
        event.data.outcome
        for event in digits.by_hand_events
        if event.kind == "stage_finished" and event.data.stage == "validate"
    ]
    assert tried[-1] == "passed", "staging has tried version 1 before"
    (begun,) = [
        event
        for event in digits.by_hand_events
        if event.kind == "rollback_started" and event.release_id == digits.by_hand.run_id
    ]
    assert (begun.data.by, begun.data.reason) == ("a person", "labels were swapped in training")
    assert digits.by_hand_events[-1].data.outcome == "rolled_back"
    assert digits.by_hand_service.storage_uri == begun.data.stable_storage_uri
    assert digits.by_hand_service.alone(digits.by_hand_service.latest_ready)
    assert set(answering_at_the_end(digits.by_hand_traffic)) == {"1"}
    assert digits.by_hand_traffic.failures == []


def test_documents_for_pages_tell_what_the_records_tell(digits: DigitsStory, sandbox: RunningSandbox) -> None:
    """Nobody has asked for a page: the releases themselves have written what their records fold to."""
    assert digits.by_hand.state == "success"
    document = ModelDocument.from_bytes(sandbox.read(model_view_key("digits")), "the document")
    lines = {version: version_line(sandbox.events("digits", version)) for version in (1, 2, 3)}
    assert {line.version: line for line in document.versions} == lines
    assert (document.live_version, document.previous_version) == (1, 2)
    assert document.open_release is None
    live = LiveDocument.from_bytes(sandbox.read(live_key("digits")), "the live document")
    assert (live.version, live.decision) == (3, "roll_back")
    assert live.weight_observed == 0
    assert {window.weight for window in live.windows} >= {20}
