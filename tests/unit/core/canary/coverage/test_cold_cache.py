"""A cache that is colder through the candidate's small share: what is allowed for it, and what is not."""

from __future__ import annotations

import json
import math

import pytest

from slipway_core.canary.coverage.cold_cache import allowance_words, allowed_share
from slipway_core.canary.judge import CanaryJudge
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from tests.support.canary.windows import judge

POLICY = AnalysisPolicy()
WINDOWS = 40


def window(slow_percent: float, weight: int, *, stable_slow: int = 0) -> Window:
    """10,000 requests, of the candidate's so many percent over 50 ms long and the others at most 20 ms."""
    mine, theirs = 100 * weight, 100 * (100 - weight)
    slow = round(mine * slow_percent / 100)

    def sample(requests: int, slow: int) -> Sample:
        longer = requests // 20
        return Sample(
            requests, 0, {10.0: requests - slow - longer, 20.0: longer, 50.0: 0, 100.0: slow, math.inf: 0}
        )

    return Window(10.0, sample(theirs, stable_slow), sample(mine, slow))


def ends(slow_percent: float, weight: int, **policy: float) -> str:
    """The status after `WINDOWS` windows, or the fail before."""
    judged = judge(weight, 100.0, **policy)
    for _ in range(WINDOWS):
        verdict = judged.observe(window(slow_percent, weight, stable_slow=100 - weight))
        if verdict.status == "fail":
            return "fail"
    return verdict.status


@pytest.mark.parametrize(
    ("weight", "percent"), [(1, 2.94), (5, 2.7), (10, 2.4), (25, 1.5), (49, 0.06), (50, 0.0), (99, 0.0)]
)
def test_the_allowance_shrinks_with_the_weight(weight: int, percent: float) -> None:
    """Of the default 3 % less and less is left, and from half of the traffic on nothing."""
    assert 100 * allowed_share(POLICY, weight) == pytest.approx(percent)
    assert bool(allowance_words(POLICY, weight)) is (percent > 0)


def test_without_a_step_nothing_is_allowed() -> None:
    """Whoever has begun no step is judged as stable is."""
    assert allowed_share(POLICY, None) == 0.0


@pytest.mark.parametrize(("slow_percent", "weight"), [(3.6, 5), (3.4, 10), (2.8, 25)])
def test_a_colder_cache_fails_no_candidate(slow_percent: float, weight: int) -> None:
    """Misses within the allowance, beyond the one percent that stable has, pass; with no allowance they fail."""
    assert ends(slow_percent, weight) == "pass"
    assert ends(slow_percent, weight, cold_cache_percent=0) == "fail"


@pytest.mark.parametrize(("slow_percent", "weight"), [(8.0, 5), (6.0, 10), (5.0, 25), (5.0, 50), (5.0, 75)])
def test_a_slow_tail_beyond_it_fails(slow_percent: float, weight: int) -> None:
    """What a colder cache does not explain is held against the candidate, and at half of the traffic all of it is."""
    assert ends(slow_percent, weight) == "fail"


def test_a_tail_that_was_allowed_fails_at_a_larger_weight() -> None:
    """A version that is slow at every weight passes the small step, which says so, and no large one."""
    judged = judge(5, 100.0)
    for _ in range(WINDOWS):
        verdict = judged.observe(window(3.0, 5))
    assert verdict.status == "pass"
    assert "At weight 5 % up to 2.7 % more slow answers than stable's are allowed for a colder cache." in (
        verdict.reason
    )
    judged.begin_step(50, 100.0)
    assert "fail" in [judged.observe(window(3.0, 50)).status for _ in range(WINDOWS)]


def test_a_ceiling_grants_nothing() -> None:
    """An absolute limit is what users may meet, whatever the reason."""
    assert ends(3.0, 5, latency_ceiling_ms=50.0, latency_quantile=0.99) == "fail"


def test_the_allowance_outlives_a_restart() -> None:
    """A judge that goes on from its saved state allows as much as before."""
    judged = judge(5, 100.0)
    again = CanaryJudge.from_json(judged.to_json())
    for _ in range(WINDOWS):
        told, told_again = (one.observe(window(3.0, 5)) for one in (judged, again))
    assert told.to_dict() == told_again.to_dict()


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), "many"])
def test_a_saved_allowance_that_is_no_share_is_refused(share: object) -> None:
    """A judge whose allowance is not known does not go on."""
    state = json.loads(judge(5, 100.0).to_json())
    state["tests"]["allowed_slow"] = share
    with pytest.raises(SlipwayError, match="cannot be read"):
        CanaryJudge.from_json(json.dumps(state))
