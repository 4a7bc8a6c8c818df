"""The live document of a canary: made of what the watch knows, and what it adds to a model's document."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from scipy.stats import binomtest

from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.canary.totals import Totals
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample, Window
from slipway_core.read_model.live import WINDOWS_LIMIT, LiveDocument
from slipway_core.read_model.live_fold import (
    Watched,
    error_interval,
    live_document,
    live_window,
)
from slipway_core.read_model.live_in_model import with_live
from slipway_core.read_model.model_fold import ModelContext, open_release, updated, version_line
from slipway_core.spec.rollout.plan import CanaryPlan, Exposure, RolloutStep
from tests.support.read_model.histories import at, begun, record_of, step_of

PLAN = CanaryPlan(
    (RolloutStep(weight=5, bake_s=60), RolloutStep(weight=50, bake_s=60)), exposure=Exposure(max_errors=9)
)


def verdict() -> Verdict:
    """Return the judge's word after a window with some errors."""
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(5, 60.0)
    stable = Sample(200, 2, {10.0: 150, 100.0: 50, math.inf: 0})
    return judge.observe(Window(10.0, stable, Sample(20, 1, {10.0: 5, 100.0: 10, math.inf: 5})))


def watched(**changes: object) -> Watched:
    """Return what a watch tells."""
    told = Watched("digits", 3, "digits-3", 0, 5, 20.0, False, "", "", verdict(), Totals(candidate_errors=2))
    return replace(told, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("errors", "requests"), [(0, 1), (0, 50), (1, 1), (3, 50), (50, 50), (7, 100_000)])
def test_the_interval_is_the_exact_one(errors: int, requests: int) -> None:
    """It is the interval of Clopper and Pearson, as scipy's own test has it."""
    exact = binomtest(errors, requests).proportion_ci(confidence_level=0.95, method="exact")
    assert error_interval(errors, requests) == pytest.approx((100 * exact.low, 100 * exact.high))


def test_a_window_is_shown_with_rates_latencies_and_evidence() -> None:
    """Percents with their interval, milliseconds, and what the evidence stands against."""
    window = live_window(verdict(), at(0))
    assert window.candidate is not None
    assert window.candidate.error_percent == pytest.approx(5.0)
    low, high = window.candidate.error_percent_low, window.candidate.error_percent_high
    assert low is not None
    assert high is not None
    assert low < 5.0 < high
    assert window.candidate.p99_is_above
    assert window.stable is not None
    assert window.stable.p50_ms is not None
    assert set(window.evidence) >= {"errors", "latency"}
    assert 0 < window.total_evidence < window.threshold


def test_a_window_without_data_says_so() -> None:
    """There is no sample then, and the reason is the metrics source's."""
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(5, 60.0)
    window = live_window(judge.observe_failure("it does not answer"), at(0))
    assert window.no_data
    assert window.candidate is None
    assert "does not answer" in window.reason


def test_the_document_says_where_the_step_stands() -> None:
    """Step, weights, exposure with what nobody watched, and when the next decision may come."""
    now = at(0)
    before = live_document(watched(), PLAN, [live_window(verdict(), now)] * 200, at=now)
    document = live_document(watched(), PLAN, [live_window(verdict(), now)] * 200, at=now, before=before)
    assert (document.step, document.weights, document.weight_intended) == (1, (5, 50), 5)
    assert document.next_decision_at == now + timedelta(seconds=40)
    assert (document.exposure.errors, document.exposure.max_errors) == (3, 9)
    assert len(document.windows) == WINDOWS_LIMIT
    assert LiveDocument.from_bytes(document.to_bytes(), "it") == document
    assert len(document.to_bytes()) < LiveDocument.limit_bytes / 4


@pytest.mark.parametrize("held", [{"held": True}, {"paused": "a person looks"}, {"decision": "advance"}])
def test_a_step_that_has_no_end_or_has_ended_names_no_time(held: dict[str, object]) -> None:
    """Held, paused, or decided already."""
    assert live_document(watched(**held), PLAN, [], at=at(0)).next_decision_at is None


def test_it_says_since_when_it_is_paused_and_held() -> None:
    """From the first document that told so, until it is over; another release's document says nothing of it."""
    before = live_document(watched(paused="a person looks"), PLAN, [], at=at(0))
    now = live_document(watched(paused="a person looks", held=True), PLAN, [], at=at(1), before=before)
    assert (now.paused_since, now.held_since) == (at(0), at(1))
    over = live_document(watched(), PLAN, [], at=at(2), before=now)
    assert (over.paused_since, over.held_since) == (None, None)
    other = live_document(watched(release_id="x", paused="again"), PLAN, [], at=at(2), before=now)
    assert other.paused_since == at(2)


def test_evidence_without_measure_is_still_json() -> None:
    """Infinite evidence is shown as the largest there is."""
    told = verdict()
    told = replace(told, statistics=replace(told.statistics, total_evidence=math.inf, no_worse=math.nan))
    window = live_window(told, at(0))
    assert (window.total_evidence, window.no_worse) == (1e300, 0.0)


def test_a_models_document_knows_what_the_watch_saw_last() -> None:
    """The weight that was seen, the verdict and a pause are newer than the record; another release's tell nothing."""
    events = record_of("digits", 3, [*begun("digits", 3, 1), *step_of("digits", 3, 1, 5, "pass")[:2]])
    document = updated(
        None, version_line(events), open_now=open_release(events), context=ModelContext(), written_at=at(9)
    )
    live = live_document(watched(paused="a person looks", step=1, weight_observed=50), PLAN, [], at=at(8))
    shown = with_live(document, live, at(9)).open_release
    assert shown is not None
    assert (shown.step, shown.weight_intended, shown.weight_observed) == (2, 50, 50)
    assert (shown.paused, shown.paused_since, shown.updated_at) == ("a person looks", at(8), at(8))
    late = with_live(document, live, at(60)).open_release
    assert late is not None
    assert late.paused == ""
    for other in ({"release_id": "digits-3-2"}, {"version": 2}, {"model": "other"}):
        assert with_live(document, live.model_copy(update=other), at(9)) == document
    assert with_live(document, None, at(9)) == document
