"""What clients were answered, counted, and which version their failures were due to."""

from __future__ import annotations

import pytest

from slipway_sandbox.demo.counts import CandidateSpan, Snapshot, Traffic, count
from slipway_sandbox.load.answers import Answer

VERSIONS = {"digits-predictor-00001": "1", "digits-predictor-00002": "2"}


def failure(at: float, revision: str | None) -> Answer:
    return Answer(at, at, at, "http", revision, "HTTP 500")


def good(at: float, version: str, *, protocol: str = "http", right: bool = True) -> Answer:
    return Answer(at - 0.01, at - 0.01, at, protocol, f"digits-predictor-0000{version}", None, version, right)


def traffic(*failures: Answer) -> Traffic:
    return Traffic(
        [Snapshot(100.0, 10, len(failures), 0, {"http": 10}, {"1": 5, "2": 5}, VERSIONS)], failures
    )


def test_every_answer_is_counted_once() -> None:
    """Good, wrong and failed answers all show up in the counts, each with its protocol, version and revision."""
    bad = failure(102.5, "digits-predictor-00002")
    counted = count([good(100.0, "1"), bad, good(101.0, "2", protocol="grpc"), good(103.0, "1", right=False)])
    assert counted.last == Snapshot(103.0, 4, 1, 1, {"http": 3, "grpc": 1}, {"1": 2, "2": 1}, VERSIONS)
    assert counted.failures == [bad]


def test_there_is_a_snapshot_for_each_second() -> None:
    """The first one is empty, each has the counts until then, the last one has all; quiet seconds have one too."""
    counted = count([good(100.01, "1"), good(100.5, "1"), good(103.5, "2")])
    assert [round(one.at - 100.0, 3) for one in counted.snapshots] == [0.0, 1.0, 2.0, 3.0, 3.5]
    assert [one.requests for one in counted.snapshots] == [0, 2, 2, 2, 3]


def test_nothing_answered_is_nothing_counted() -> None:
    """Clients that never got an answer count zero."""
    assert count([]) == Traffic()
    assert count([]).last.requests == 0


@pytest.mark.parametrize(
    ("revision", "at", "blamed"),
    [
        ("digits-predictor-00002", 15.0, 2),
        ("digits-predictor-00001", 15.0, None),
        ("digits-predictor-00002", 25.0, None),
        ("digits-predictor-00002", 5.0, None),
        (None, 15.0, None),
        ("digits-predictor-00003", 15.0, 2),
        ("digits-predictor-00003", 25.0, None),
    ],
)
def test_a_failure_is_a_candidates_only_where_the_candidate_answered(
    revision: str | None, at: float, blamed: int | None
) -> None:
    """Blame goes to the candidate by the revision that answered, within its time; all else is on stable.

    A revision that never gave one good answer is the candidate's, as long as one is under way.
    """
    assert traffic(failure(at, revision)).failed_on([CandidateSpan(2, 10.0, 20.0)]) == {blamed: 1}


def test_two_candidates_are_not_mistaken_for_each_other() -> None:
    """A revision nobody knows is not blamed on either of two candidates under way."""
    spans = [CandidateSpan(2, 0.0, None), CandidateSpan(3, 0.0, None)]
    assert traffic(failure(5.0, "digits-predictor-00009")).failed_on(spans) == {None: 1}


def test_a_candidate_that_was_never_promoted_stays_one() -> None:
    """A span without an end holds for good."""
    assert traffic(failure(1e9, "digits-predictor-00002")).failed_on([CandidateSpan(2, 10.0, None)]) == {2: 1}


def test_behind_a_router_that_names_nobody_time_decides() -> None:
    """Where no answer ever named a revision, what failed while a candidate was under way is the candidate's."""
    unnamed = Snapshot(100.0, 10, 2, 0, {"http": 10}, {"1": 8}, {})
    counted = Traffic([unnamed], [failure(15.0, None), failure(25.0, None)])
    assert counted.failed_on([CandidateSpan(2, 10.0, 20.0)]) == {2: 1, None: 1}
