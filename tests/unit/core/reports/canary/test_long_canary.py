"""Canaries of days: their evidence is complete and made in one pass, and their page stays small and says so."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.canary.judge import CanaryJudge
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    RollbackStarted,
    StageStarted,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.reports.canary import evidence as evidence_module
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_core.reports.canary.recording import recordings
from slipway_core.reports.canary.timeline import TimeAxis, extremes, points_of
from slipway_sandbox.lab.simulation.recorded_canary import CANDIDATE_URI, STABLE_URI, Story, Traffic

_PAGE_BYTES = 300_000


def begin(story: Story) -> None:
    """Begin a canary, at its only step."""
    story.tell(StageStarted(stage="canary"))
    story.tell(WeightIntended(weight=5, storage_uri=CANDIDATE_URI, stable_storage_uri=STABLE_URI))
    story.tell(WeightObserved(weight=5, traffic={"c": 5, "s": 95}))


def watch(story: Story, without_data_at: Iterable[bool]) -> None:
    """Let windows be judged, those with data with the same verdict: each stands for itself."""
    judge = CanaryJudge(story.policy)
    judge.begin_step(5, 1e6)
    unseen, seen = judge.observe_failure("away"), judge.observe(Traffic(rps=10)(0.0, 50))  # type: ignore[arg-type]
    for without_data in without_data_at:
        story.now += timedelta(seconds=10)
        story.tell(
            WindowJudged(
                verdict=(unseen if without_data else seen).to_dict(),
                candidate_requests=10,
                candidate_errors=0,
                first_bad_at=None,
            )
        )


def document_of(story: Story) -> CanaryEvidence:
    """The evidence of the story's last release."""
    return canary_evidence(story.events, story.policy)


@pytest.fixture(scope="module")
def flickering() -> CanaryEvidence:
    """A canary of 2,000 windows of which every other one had no data."""
    story = Story()
    begin(story)
    watch(story, [number % 2 == 1 for number in range(2000)])
    return document_of(story)


def test_a_source_that_comes_and_goes_does_not_swell_the_page(flickering: CanaryEvidence) -> None:
    """A thousand stretches without data are drawn as few, and each caption says so; the data has every window."""
    page = render_canary_html(flickering)
    assert len(page) < _PAGE_BYTES
    assert page.count("There are too many to draw each") >= 5
    assert len(flickering.runs[0].windows) == 2000
    # The policy, the step, and the windows.
    assert recordings(flickering)["canary.jsonl"].count("\n") == 2002


def test_points_lose_no_request_where_windows_have_no_data_again_and_again(
    flickering: CanaryEvidence,
) -> None:
    """There are no more points than can be drawn, and together they hold what users sent."""
    run = flickering.runs[0]
    points, pooled = points_of(run.windows, TimeAxis.of(run))
    sent = [window.window.candidate.requests for window in run.windows if window.window is not None]
    assert sum(point.candidate.requests for point in points) == sum(sent)
    assert pooled
    assert len(points) <= 600
    assert all(one.ended_s <= other.began_s + 1 for one, other in itertools.pairwise(points))


def test_few_stretches_without_data_are_drawn_as_they_were() -> None:
    """An ordinary canary's stretches are exact, and nothing is said of joining."""
    story = Story()
    begin(story)
    watch(story, [number % 10 == 9 for number in range(200)])
    document = document_of(story)
    axis = TimeAxis.of(document.runs[0])
    assert len(axis.no_data_s) == 20
    assert axis.joined_s is None
    assert "too many to draw" not in render_canary_html(document)


def test_very_many_decisions_are_shown_by_their_ends() -> None:
    """The first and the last hundred keep their numbers; the page says how many lie between."""
    story = Story()
    begin(story)
    watch(story, [False] * 5)
    for weight in itertools.islice(itertools.cycle((6, 5)), 1000):
        story.now += timedelta(seconds=10)
        story.tell(WeightObserved(weight=weight, traffic={"c": weight}))
    document = document_of(story)
    page = render_canary_html(document)
    assert len(document.runs[0].decisions) == 1001
    assert len(re.findall("<li><time", page)) == 200
    assert "801 more decisions in between are not shown; canary.json has all of them." in page
    assert "<ol class=decisions start=902>" in page
    assert "and so on; 1002 in all, 5 % at the end" in page
    assert len(page) < _PAGE_BYTES


def test_very_many_runs_and_steps_are_shown_by_their_ends() -> None:
    """A canary that was begun anew 300 times has a table that can be read."""
    story = Story()
    for _ in range(301):
        begin(story)
    story.tell(WeightObserved(weight=5, traffic={}))
    for _ in range(300):
        story.now += timedelta(seconds=1)
        story.tell(WeightIntended(weight=5, storage_uri=CANDIDATE_URI, stable_storage_uri=STABLE_URI))
    page = render_canary_html(document_of(story))
    assert "100 more runs in between are not shown" in page
    assert "101 more steps in between are not shown" in page


def test_very_long_words_are_cut() -> None:
    """A reason of a megabyte, as a record may hold it, does not make a page of many."""
    story = Story()
    begin(story)
    watch(story, [False] * 3)
    story.tell(RollbackStarted(reason="<b>" * 400_000, by="x" * 10_000, stable_storage_uri=STABLE_URI))
    document = document_of(story)
    page = render_canary_html(document)
    assert len(page) < _PAGE_BYTES
    assert "<b><b>" not in page
    assert document.runs[0].decisions[-1].words.count("<b>") == 400_000


def test_evidence_of_an_early_release_is_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many releases of the version there were, each event is folded twice at most."""
    story = Story()
    for number in range(40):
        begin(story)
        watch(story, [False] * 2)
        story.release_again(f"again-{number}")
    folded: list[int] = []

    def counted(events: list[Event]) -> Any:
        folded.append(len(events))
        return fold(events)

    monkeypatch.setattr(evidence_module, "fold", counted)
    for release_id in ("manual__1", "again-7", "again-39"):
        folded.clear()
        found = canary_evidence(story.events, story.policy, release_id=release_id)
        assert found.release_id == release_id
        assert sum(folded) <= 2 * len(story.events)


def test_an_attempt_is_told_as_it_stood_at_its_own_end() -> None:
    """The document of a release says what it had come to when the next one began."""
    story = Story()
    begin(story)
    watch(story, [False])
    story.restore()
    until = story.events[-1].at
    story.release_again("next")
    story.release_again("manual__1")
    story.release_again("last")
    assert canary_evidence(story.events[:-2], story.policy, release_id="manual__1").outcome == "rolled_back"
    again = canary_evidence(story.events, story.policy, release_id="manual__1")
    assert again.outcome == "open"
    assert again.until > until


@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), max_size=200), st.integers(1, 20))
def test_a_thinned_line_keeps_its_ends_and_extremes(values: list[float], parts: int) -> None:
    """What is left out lies between what is drawn, and what is drawn is bounded."""
    kept = extremes(values, parts)
    assert kept == sorted({*kept})
    assert len(kept) <= max(2 * parts + 2, 0)
    known = [value for value in values if value == value]
    if values:
        assert (kept[0], kept[-1]) == (0, len(values) - 1)
    if known:
        drawn = [values[place] for place in kept if values[place] == values[place]]
        assert (min(drawn), max(drawn)) == (min(known), max(known))
