"""Whether the story went as it should: every way in which it may not is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway_core.record.fold import fold
from slipway_sandbox.demo.chapters import (
    ChapterResult,
    answering_at_the_end,
    candidate_spans,
    failed_on_stable,
    problems,
)
from slipway_sandbox.demo.counts import Snapshot, Traffic


def test_a_story_that_went_well_has_no_problems(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """Two promoted, one rolled back, one refused, nothing failed on stable: nothing to say."""
    assert problems(good_story, good_traffic) == []
    assert failed_on_stable(good_story, good_traffic) == 0


def test_a_candidate_is_one_from_its_first_share_to_its_end(good_story: list[ChapterResult]) -> None:
    """A promoted version stops being a candidate when it is promoted, a rolled back one when its record ends.

    The first version never was one, and a refused one had no traffic.
    """
    spans = {span.version: (span.begin, span.end) for span in candidate_spans(good_story)}
    begin = good_story[0].events[0].at.timestamp()
    assert spans == {2: (begin + 130, begin + 155), 3: (begin + 230, begin + 262)}


@pytest.mark.parametrize(
    ("version", "outcome", "sentence"),
    [
        (1, "rolled_back", "Version 1: expected promoted, found rolled_back"),
        (2, "refused", "Version 2: expected promoted, found refused"),
        (3, "promoted", "Version 3: expected rolled_back, found promoted"),
        (4, "promoted", "Version 4: expected refused, found promoted"),
    ],
)
def test_another_outcome_is_named(
    version: int,
    outcome: str,
    sentence: str,
    good_story: list[ChapterResult],
    good_traffic: Traffic,
    build: Any,
) -> None:
    """A release that ended otherwise is named with what was expected and found."""
    good_story[version - 1] = build["result_of"](version, build["recorded"](version, outcome))
    assert any(problem.startswith(sentence) for problem in problems(good_story, good_traffic))


def test_a_refusal_outside_staging_is_named(
    good_story: list[ChapterResult], good_traffic: Traffic, build: Any
) -> None:
    """Version 4 must not get as far as the canary."""
    good_story[3] = build["result_of"](4, build["recorded"](4, "refused", refused_by="canary"))
    assert problems(good_story, good_traffic) == [
        "Version 4: expected to be refused in staging, found refused by canary."
    ]


def test_a_rollback_for_another_reason_is_named(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """Version 3 must come back because the judge saw it fail, not because a task of ours did."""
    events = [
        replace(event, data=event.data.model_copy(update={"by": "task failure"}))
        if event.kind == "rollback_started"
        else event
        for event in good_story[2].events
    ]
    good_story[2] = replace(good_story[2], events=events, state=fold(events))
    assert problems(good_story, good_traffic) == [
        "Version 3: expected a rollback by the judge, found one by task failure. errors"
    ]


def test_a_rollback_without_a_bad_answer_is_named(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """The record must hold what the judge saw."""
    state = good_story[2].state
    assert state is not None
    good_story[2] = replace(good_story[2], state=replace(state, candidate_errors=None))
    assert problems(good_story, good_traffic) == ["Version 3: rolled back without a bad answer on record."]


def test_a_version_that_nobody_started_is_named(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """An event that started nothing shows as such."""
    good_story[1] = replace(good_story[1], run=None, events=(), state=None)
    assert "Version 2: no run of model_release started automatically within 300 s." in problems(
        good_story, good_traffic
    )


def test_a_run_without_a_record_is_named(good_story: list[ChapterResult], good_traffic: Traffic) -> None:
    """A run that failed before it was admitted says which run to look at."""
    good_story[3] = replace(good_story[3], events=(), state=None)
    assert "Version 4: run run-4 ended failed and left no record." in problems(good_story, good_traffic)


def test_chapters_that_were_not_reached_are_named(good_story: list[ChapterResult], build: Any) -> None:
    """A story that stopped early is not a good one."""
    found = problems(good_story[:2], build["counted"]([]))
    assert [problem.split(" was ")[0] for problem in found] == ["Version 3", "Version 4"]


def test_a_failure_of_the_stable_version_is_a_problem(good_story: list[ChapterResult], build: Any) -> None:
    """A single failed request that no candidate explains fails the story."""
    traffic = build["counted"]([build["failed"](3, 40, "digits-predictor-00002")])
    assert problems(good_story, traffic) == ["1 requests failed on the stable version; expected none."]
    assert failed_on_stable(good_story, traffic) == 1


def test_a_failure_of_the_good_candidate_is_a_problem(good_story: list[ChapterResult], build: Any) -> None:
    """The release of version 2 may not cost one request."""
    traffic = build["counted"]([build["failed"](2, 40, "digits-predictor-00002")])
    assert problems(good_story, traffic) == ["1 requests failed on version 2; expected none."]


def test_a_failure_after_the_rollback_is_nobodys_candidate(
    good_story: list[ChapterResult], build: Any
) -> None:
    """Once a version is rolled back, what it fails is what users of the stable version saw."""
    assert (
        failed_on_stable(good_story, build["counted"]([build["failed"](4, 5, "digits-predictor-00003")])) == 1
    )


def test_a_refused_version_that_answered_is_a_problem(
    good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """Version 4 must never be seen by a client."""
    last = replace(good_traffic.last, answered_by={**good_traffic.last.answered_by, "4": 1})
    traffic = Traffic([*good_traffic.snapshots, last, replace(last, answered_by={**last.answered_by, "2": 99999})],
                      good_traffic.failures)  # fmt: skip
    assert problems(good_story, traffic) == ["Version 4 answered clients; it should never have reached them."]


def test_clients_must_end_on_version_2(good_story: list[ChapterResult], good_traffic: Traffic) -> None:
    """Who answers at the end counts, not who answered most."""
    last = replace(good_traffic.last, answered_by={**good_traffic.last.answered_by, "1": 99999})
    traffic = Traffic([*good_traffic.snapshots, last], good_traffic.failures)
    assert problems(good_story, traffic) == ["Clients should end on version 2; found 1 answering."]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_both_protocols_must_have_been_used(
    protocol: str, good_story: list[ChapterResult], good_traffic: Traffic
) -> None:
    """A story in which one protocol was silent proves nothing of it."""
    others = {name: count for name, count in good_traffic.last.by_protocol.items() if name != protocol}
    snapshots = [*good_traffic.snapshots[:-1], replace(good_traffic.last, by_protocol=others)]
    assert problems(good_story, Traffic(snapshots, good_traffic.failures)) == [
        f"No request was sent over {protocol}."
    ]


def test_nobody_answers_before_anything_was_counted() -> None:
    """Without snapshots, and with nothing but equal ones, nobody answers at the end."""
    snapshot = Snapshot(1.0, 5, 0, 0, {"http": 5}, {"1": 5}, {})
    assert answering_at_the_end(Traffic()) == {}
    assert answering_at_the_end(Traffic([snapshot, snapshot])) == {}
