"""What the watch over a fleet tells, and what it has told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slipway_core.fleet.watch import REPORT_AGAIN_AFTER, NotifiedFindings

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SOON = NOW + timedelta(minutes=5)
DEAD, OTHER = "a: no answer", "b serves version 6, the fleet's version is 7"


def test_finding_is_told_by_one_run() -> None:
    """By each try of it; a later run tells what is new alone."""
    told = NotifiedFindings().after([DEAD], "one", NOW)
    assert NotifiedFindings().news([DEAD], "one", NOW) == [DEAD]
    assert told.news([DEAD], "one", SOON) == [DEAD], "a second try is no success"
    assert told.news([DEAD], "two", SOON) == []
    assert told.news([DEAD, OTHER], "two", SOON) == [OTHER]
    both = told.after([DEAD, OTHER], "two", SOON)
    assert (both.notified[DEAD].run_id, both.notified[OTHER].run_id) == ("one", "two")


def test_finding_that_was_gone_is_told_again() -> None:
    """What is not found is forgotten."""
    told = NotifiedFindings().after([DEAD], "one", NOW).after([], "two", SOON)
    assert told == NotifiedFindings()
    assert told.news([DEAD], "three", SOON) == [DEAD]


def test_finding_that_lasts_is_told_once_a_day() -> None:
    """Nobody has seen to it: that is not forgotten for good."""
    told = NotifiedFindings().after([DEAD], "one", NOW)
    later = NOW + REPORT_AGAIN_AFTER
    assert told.news([DEAD], "two", later - timedelta(seconds=1)) == []
    assert told.news([DEAD], "two", later) == [DEAD]
    assert told.after([DEAD], "two", later).news([DEAD], "three", later + timedelta(minutes=5)) == []


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"told": {"a": 1}}', b"\xff"])
def test_what_cannot_be_read_was_not_told(content: bytes | None) -> None:
    """It is told again."""
    assert NotifiedFindings.from_bytes(content) == NotifiedFindings()


def test_what_was_told_outlives_a_run() -> None:
    """It is read as it was written."""
    told = NotifiedFindings().after([DEAD], "one", NOW)
    assert NotifiedFindings.from_bytes(told.to_bytes()) == told
