"""The log as a story."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from slipway.web.release.story import story_of
from slipway_core.read_model.release_view import LogLine

START = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _line(seq: int, kind: str) -> LogLine:
    return LogLine(
        at=START + timedelta(seconds=seq), seq=seq, kind=kind, sentence=f"{kind} {seq}", release_id="r"
    )


def test_windows_in_a_row_are_told_once() -> None:
    """Newest first; of windows in a row the newest one stands for those before it, and nothing is lost."""
    kinds = [
        "release_started",
        "window_judged",
        "window_judged",
        "step_finished",
        "window_judged",
        "promoted",
    ]
    story = story_of([_line(seq, kind) for seq, kind in enumerate(kinds)])
    assert [one.line.seq for one in story] == [5, 4, 3, 2, 0]
    assert [[line.seq for line in one.before] for one in story] == [[], [], [], [1], []]
    assert [one.tone for one in story] == ["good", "soft", "", "soft", ""]


def test_an_empty_log_is_an_empty_story() -> None:
    """There is nothing to tell."""
    assert story_of([]) == ()


def _told(*lines: str, releases: Iterable[str] = ()) -> list[str]:
    ids = [*releases] or ["r"] * len(lines)
    log = [
        LogLine(
            at=START + timedelta(seconds=seq), seq=seq, kind="stage_finished", sentence=told, release_id=one
        )
        for seq, (told, one) in enumerate(zip(lines, ids, strict=True))
    ]
    return [one.line.sentence for one in reversed(story_of(log))]


def test_a_reason_is_given_once() -> None:
    """One verdict ends a step, begins a rollback and ends the release: its reason stands where it first came up."""
    reason = "p99 latency rose from 41 ms to 96 ms: evidence 120 against a threshold of 100"
    assert _told(
        f"The judge said fail (210 requests): {reason}.",
        f"The step at 5 % failed after 2 min: {reason}.",
        "No traffic was seen on the candidate.",
        f"The release ended: it was rolled back: {reason}.",
    ) == [
        f"The judge said fail (210 requests): {reason}.",
        "The step at 5 % failed after 2 min.",
        "No traffic was seen on the candidate.",
        "The release ended: it was rolled back.",
    ]


def test_a_reason_that_was_cut_is_recognised() -> None:
    """A longer sentence is cut earlier; its reason is the same."""
    reason = "the converter ran out of memory, which was 4 GiB, while it optimised the graph"
    assert (
        _told(f"It failed: {reason}.", f"The stage convert failed: {reason[:60]}…")[1]
        == "The stage convert failed."
    )


def test_another_reason_and_another_attempt_keep_theirs() -> None:
    """What was not said yet of this attempt is said."""
    lines = (
        "The stage failed: no answer.",
        "The release failed: no answer from S3.",
        "The stage failed: no answer.",
    )
    assert _told(*lines, releases=("r", "r", "s")) == [*lines]
