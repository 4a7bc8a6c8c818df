"""Histograms with other bounds: a slower candidate is found where they tell, and passes nothing where they do not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.canary.coverage.histogram_bounds import on_bounds, tells
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample, Window
from tests.support.canary.windows import judge

FINE = (10.0, 20.0, 50.0, 100.0, math.inf)


def histogram(answers: Iterable[float], bounds: Iterable[float]) -> dict[float, int]:
    """What a histogram shows of answers that took so many ms."""
    found = dict.fromkeys(sorted(bounds), 0)
    for answer in answers:
        found[next(bound for bound in found if answer <= bound)] += 1
    return found


def judged(stable: dict[float, int], candidate: dict[float, int], windows: int = 16) -> Verdict:
    """The verdict on some equal windows without errors."""
    found = judge(weight=20)
    for _ in range(windows):
        verdict = found.observe(
            Window(
                10.0, Sample(sum(stable.values()), 0, stable), Sample(sum(candidate.values()), 0, candidate)
            )
        )
    return verdict


STABLE = histogram([15.0] * 400, FINE)


def test_a_slower_candidate_fails_also_by_other_bounds() -> None:
    """All of its answers took longer than any bound of stable's: the bounds tell enough."""
    verdict = judged(STABLE, histogram([3000.0] * 100, (2500.0, 5000.0, math.inf)))
    assert verdict.status == "fail"
    assert "slower than stable" in verdict.reason


@pytest.mark.parametrize("bounds", [(5000.0, math.inf), (math.inf,), (0.5, 200.0, math.inf)])
def test_bounds_that_tell_nothing_of_each_other_pass_nothing(bounds: tuple[float, ...]) -> None:
    """The candidate may be many times slower, and its buckets would look the same; the reason names the bounds."""
    for slow in (15.0, 150.0):
        verdict = judged(STABLE, histogram([slow] * 100, bounds))
        assert verdict.status == "inconclusive"
        assert "Latency was not compared" in verdict.reason
        assert "stable 10, 20, 50, 100, inf ms" in verdict.reason


def test_the_lacking_histogram_is_named() -> None:
    """The reason says whose latencies are not shown."""
    found = judge(weight=20)
    for _ in range(3):
        verdict = found.observe(Window(10.0, Sample(400, 0, STABLE), Sample(100, 0)))
    assert verdict.status == "inconclusive"
    assert "shows the latency of 0 of 300 answers of the candidate in this step" in verdict.reason


def test_a_source_without_any_latency_is_not_held_up() -> None:
    """It compares none, which its declaration says."""
    found = judge(weight=20)
    for _ in range(3):
        verdict = found.observe(Window(10.0, Sample(400, 0), Sample(100, 0)))
    assert verdict.status == "pass"


def test_a_histogram_may_come_later_than_the_counts() -> None:
    """At 99 % stable has an answer now and then, whose latency shows a window later: that holds nothing up."""
    found, quick = judge(weight=99), histogram([15.0] * 400, FINE)
    nothing = dict.fromkeys(FINE, 0)
    for number in range(12):
        stable = Sample(
            20 if number == 0 else number % 2, 0, histogram([15.0] * 20, FINE) if number == 0 else nothing
        )
        verdict = found.observe(Window(10.0, stable, Sample(400, 0, quick)))
    assert "Latency was not compared" not in verdict.reason


def test_a_ceiling_above_the_last_bound_is_not_taken_for_kept() -> None:
    """Answers above the last bound may be above the ceiling or not; where there are none, it is kept."""
    late = histogram([15.0] * 300 + [3000.0] * 100, FINE)
    for candidate, told in ((late, True), (STABLE, False)):
        found = judge(
            weight=50,
            latency_ceiling_ms=2000.0,
            latency_quantile=0.9,
            latency_margin_percent=1000.0,
            latency_grace_s=0.0,
        )
        for _ in range(3):
            verdict = found.observe(Window(10.0, Sample(400, 0, late), Sample(400, 0, candidate)))
        assert ("unknown whether they keep the ceiling of 2000 ms" in verdict.reason) is told
        assert (verdict.status == "pass") is not told


def test_bounds_that_differ_little_are_compared() -> None:
    """A good candidate with some other bounds passes."""
    verdict = judged(STABLE, histogram([15.0] * 100, (10.0, 20.0, 25.0, 100.0, math.inf)))
    assert verdict.status == "pass"


def test_stable_may_change_its_bounds_between_windows() -> None:
    """With each window other bounds of stable's: a slower candidate is found all the same."""
    other = histogram([15.0] * 400, (5.0, 16.0, 40.0, 100.0, math.inf))
    slow = histogram([3000.0] * 100, (2500.0, 5000.0, math.inf))
    found = judge(weight=20)
    statuses = [
        found.observe(Window(10.0, Sample(400, 0, stable), Sample(100, 0, slow))).status
        for stable in (STABLE, other) * 8
    ]
    assert statuses[-1] == "fail"


def test_it_outlives_a_restart() -> None:
    """What was not compared before is not forgotten."""
    found = judge(weight=20)
    for _ in range(3):
        found.observe(Window(10.0, Sample(400, 0, STABLE), Sample(100, 0)))
    found = CanaryJudge.from_json(found.to_json())
    assert "Latency was not compared" in found.standing().reason
    state = json.loads(found.to_json())
    state["latency_seen"]["compared"] = -1
    with pytest.raises(Exception, match="cannot be read"):
        CanaryJudge.from_json(json.dumps(state))


bounds_of = st.lists(st.floats(0.5, 5000), max_size=6, unique=True).map(lambda found: (*found, math.inf))


@given(st.lists(st.floats(0.01, 6000), max_size=30), bounds_of, bounds_of)
def test_what_is_certain_lies_between_fast_and_slow(
    answers: list[float], mine: tuple[float, ...], theirs: tuple[float, ...]
) -> None:
    """Above each bound of stable's lie at least the answers taken for fast, and at most those taken for slow."""
    ours, other = histogram(answers, mine), histogram([], theirs)
    fast, slow = on_bounds(ours, other, "fast"), on_bounds(ours, other, "slow")
    assert sum(fast.values()) == sum(slow.values()) == len(answers)
    for bound in theirs:
        truth = sum(answer > bound for answer in answers)
        assert sum(n for b, n in fast.items() if b > bound) <= truth
        assert truth <= sum(n for b, n in slow.items() if b > bound)


@given(st.lists(st.floats(5, 40), min_size=200, max_size=300), bounds_of)
def test_what_tells_would_show_a_candidate_that_is_a_hundred_times_slower(
    answers: list[float], mine: tuple[float, ...]
) -> None:
    """Where the bounds are said to tell enough, its answers lie above a bound that half of stable keeps."""
    stable, candidate = histogram(answers, FINE), histogram([100 * one for one in answers], mine)
    if not tells(candidate, stable, 0.9999):
        return
    fast, half = on_bounds(candidate, stable, "fast"), len(answers) / 2
    assert any(
        sum(n for b, n in fast.items() if b > bound) >= 0.9 * len(answers)
        and sum(n for b, n in stable.items() if b > bound) <= half
        for bound in FINE[:-1]
    )
