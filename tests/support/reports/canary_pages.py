"""Canaries that end in every way, with their documents and their pages."""

from __future__ import annotations

import functools
from collections.abc import Callable

from slipway_core.canary.judge import AnalysisPolicy
from slipway_core.record.kinds import ReleaseFinished, StageStarted, WeightIntended
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_core.spec.rollout.plan import RolloutStep
from slipway_sandbox.lab.simulation.recorded_canary import STABLE_URI, STEPS, Story, Traffic


def good() -> Story:
    story = Story()
    story.canary(Traffic())
    story.promote()
    return story


def failing() -> Story:
    story = Story(AnalysisPolicy(error_ceiling_percent=10, latency_ceiling_ms=500))
    story.canary(Traffic(candidate_errors=0.05, bad_after_s=150))
    story.restore()
    return story


def without_data() -> Story:
    story = Story()
    story.canary(Traffic(no_data_s=[(60, 81), (200, 9999)]))
    story.restore()
    return story


def begun_anew() -> Story:
    story = Story()
    story.canary(Traffic(seed=2), windows=15)
    story.canary(Traffic(seed=3))
    story.promote()
    return story


def one_window() -> Story:
    story = Story()
    story.canary(Traffic(), windows=1)
    return story


def one_window_without_data() -> Story:
    story = Story()
    story.canary(Traffic(no_data_s=[(0, 99)]), windows=1)
    return story


def no_traffic() -> Story:
    story = Story()
    story.canary(Traffic(rps=0.0), windows=4)
    return story


def hundreds_of_windows() -> Story:
    story = Story()
    story.canary(
        Traffic(rps=5),
        [RolloutStep(weight=10, bake_s=2000), RolloutStep(weight=50, bake_s=2000)],
        max_bake_s=9000,
    )
    return story


def golden_replays() -> Story:
    story = Story()
    steps = [RolloutStep(weight=5, bake_s=30), RolloutStep(weight=50, bake_s=30)]
    story.canary(Traffic(rps=0.2), steps, replays=Traffic(rps=10, seed=8), on_inconclusive="golden_replay")
    story.promote()
    return story


def no_window() -> Story:
    story = Story()
    story.tell(StageStarted(stage="canary"))
    story.tell(WeightIntended(weight=5, storage_uri="x", stable_storage_uri=STABLE_URI))
    return story


def refused() -> Story:
    story = Story()
    story.tell(ReleaseFinished(outcome="refused", refused_by="validate", reason="It is too inaccurate."))
    return story


STORIES: list[Callable[[], Story]] = [
    good,
    failing,
    without_data,
    begun_anew,
    one_window,
    one_window_without_data,
    no_traffic,
    hundreds_of_windows,
    golden_replays,
    no_window,
    refused,
]


@functools.cache
def document_of(make_story: Callable[[], Story]) -> CanaryEvidence:
    story = make_story()
    return canary_evidence(story.events, story.policy, planned=STEPS)


@functools.cache
def page_of(make_story: Callable[[], Story]) -> str:
    return render_canary_html(document_of(make_story))
