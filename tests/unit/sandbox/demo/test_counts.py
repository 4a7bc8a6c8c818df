"""What a traffic client wrote, read back, and whose fault its failures were."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.sandbox.demo.counts import (
    CandidateSpan,
    Failure,
    Snapshot,
    Traffic,
    failure_line,
    read_traffic,
    snapshot_line,
)

VERSIONS = {"digits-predictor-00001": "1", "digits-predictor-00002": "2"}


def failure(at: float, revision: str | None) -> Failure:
    return Failure(at=at, protocol="http", revision=revision, error="HTTP 500")


def traffic(*failures: Failure) -> Traffic:
    return Traffic(
        [Snapshot(100.0, 10, len(failures), 0, {"http": 10}, {"1": 5, "2": 5}, VERSIONS)], failures
    )


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Snapshots and failures survive the file."""
    expected = traffic(failure(3.0, None))
    path = tmp_path / "traffic.jsonl"
    lines = [failure_line(expected.failures[0]), snapshot_line(expected.snapshots[0])]
    path.write_text("\n".join(lines) + "\n")
    assert read_traffic(path) == Traffic(list(expected.snapshots), list(expected.failures))


@pytest.mark.parametrize("rest", ['{"kind": "fail', "", "null", "[1]", '{"kind": "other"}'])
def test_a_line_that_is_no_entry_is_left_out(tmp_path: Path, rest: str) -> None:
    """A client killed in the middle of a line loses that line and no other."""
    path = tmp_path / "traffic.jsonl"
    path.write_text(failure_line(failure(1.0, None)) + "\n" + rest)
    assert len(read_traffic(path).failures) == 1


def test_nothing_written_is_nothing_counted(tmp_path: Path) -> None:
    """A client that never began counts zero, without a first answer."""
    empty = read_traffic(tmp_path / "none.jsonl")
    assert empty.last.requests == 0
    assert empty.first_answer_at is None


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
