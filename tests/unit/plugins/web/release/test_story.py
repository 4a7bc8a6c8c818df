"""The log as a story."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slipway.web.release.story import story_of

from include.model_release.read_model.release_view import LogLine

START = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _line(seq: int, kind: str) -> LogLine:
    return LogLine(
        at=START + timedelta(seconds=seq), seq=seq, kind=kind, told=f"{kind} {seq}", release_id="r"
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
