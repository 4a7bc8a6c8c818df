"""Whether the router leads to the candidate whom the weight says, by what it has counted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.router_share import RouterShare
from slipway_core.metrics.samples import Sample, Window
from tests.support.canary.windows import judge, window


def doubt(stable: int, candidate: int, weight: int | None = 20) -> str | None:
    """What is said of these requests, behind a first window that does not count."""
    return RouterShare().plus(window((7, 0), (0, 0))).plus(window((stable, 0), (candidate, 0))).doubt(weight)


def test_nobody_on_the_candidate_is_told_with_both_shares() -> None:
    """The reason has the weight, the share that was seen, and the counts."""
    assert doubt(1234, 0) == (
        "The router does not do what the status says: at weight 20 % it sent 0 % of the users to the candidate "
        "(0 of 1234 requests since the step's first window)."
    )


@pytest.mark.parametrize(
    ("weight", "stable", "candidate"),
    [
        (20, 1000, 5),
        (20, 500, 500),
        (5, 0, 10),
        (5, 600, 0),
        (50, 1000, 100),
        (50, 100, 1000),
        (99, 900, 100),
    ],
)
def test_a_share_far_off_is_doubted(weight: int, stable: int, candidate: int) -> None:
    """Clearly fewer than half of the weight's odds, or more than double: in both directions."""
    assert doubt(stable, candidate, weight) is not None


@pytest.mark.parametrize(
    ("weight", "stable", "candidate"),
    [
        (20, 100, 0),
        (5, 400, 0),
        (20, 8000, 1500),
        (20, 8000, 3000),
        (50, 55_000, 45_000),
        (1, 990, 10),
        (99, 1, 99),
    ],
)
def test_chance_and_what_is_read_at_different_moments_are_no_doubt(
    weight: int, stable: int, candidate: int
) -> None:
    """Few requests prove nothing, and a share near the weight is none to speak of."""
    assert doubt(stable, candidate, weight) is None


@pytest.mark.parametrize("weight", [None, 0, 100])
def test_without_a_weight_to_compare_with_nothing_is_doubted(weight: int | None) -> None:
    """A canary without a step, and the ends of the scale."""
    assert doubt(1000, 0, weight) is None


def test_the_first_window_of_a_step_does_not_count() -> None:
    """It may have begun at the weight of the step before."""
    judged = judge(weight=50)
    assert "router" not in judged.observe(window((1000, 0), (50, 0))).reason
    judged.observe(window((500, 0), (500, 0)))
    judged.begin_step(90, 0.0)
    assert judged.observe(window((500, 0), (500, 0))).status == "pass"
    assert "at weight 90 %" in judged.observe(window((500, 0), (500, 0))).reason


def test_one_window_that_was_counted_wrongly_is_not_all_there_is() -> None:
    """Weeks of stable's counts in one window are doubted, and a few windows later they no longer count for more."""
    judged = judge(weight=25)
    for counts in ((750, 0), (2_060_000, 60_000)):
        verdict = judged.observe(window(counts, (250, 1)))
    assert "The router does not do" in verdict.reason
    for _ in range(4):
        verdict = judged.observe(window((750, 0), (250, 1)))
    assert verdict.status == "pass"


def test_evidence_of_the_router_ages() -> None:
    """A router that did as it should for hours and then does not is doubted after some windows; only those are told."""
    judged = judge(weight=50)
    for _ in range(200):
        judged.observe(window((500, 0), (500, 0)))
    for _ in range(20):
        verdict = judged.observe(window((900, 0), (100, 0)))
    assert "(2000 of 20000 requests in the last 20 windows)" in verdict.reason


def test_requests_count_where_they_began() -> None:
    """A candidate that is sent its share and answers nothing is no fault of the router's."""
    judged = judge(weight=50)
    mine = Sample(0, 0, {}, 0, begun=250, active=250)
    for _ in range(3):
        verdict = judged.observe(Window(10.0, Sample(250, 0, {}, 0, begun=250, active=0), mine))
    assert "router" not in verdict.reason


def test_it_outlives_a_restart_and_passes_nothing() -> None:
    """A judge that was saved goes on with the counts; users that come after all clear the doubt."""
    judged = judge(weight=50)
    for _ in range(3):
        judged.observe(window((950, 0), (50, 0)))
    judged = CanaryJudge.from_json(judged.to_json())
    verdict = judged.standing()
    assert (verdict.status, "The router does not do" in verdict.reason) == ("inconclusive", True)
    for _ in range(4):
        verdict = judged.observe(window((500, 0), (500, 0)))
    assert verdict.status == "pass"


def test_a_candidate_that_fails_still_fails() -> None:
    """Whatever the router does, a fail is told as such."""
    judged = judge(weight=50)
    verdicts = [judged.observe(window((950, 0), (50, 50))) for _ in range(4)]
    assert verdicts[-1].status == "fail"


def test_a_saved_state_that_holds_no_counts_is_refused() -> None:
    """Junk is no count."""
    judged = judge(weight=50)
    judged.observe(window((1, 0), (1, 0)))
    state = json.loads(judged.to_json())
    state["router"]["windows"] = [[1, -1]]
    with pytest.raises(Exception, match="cannot be read"):
        CanaryJudge.from_json(json.dumps(state))


@given(st.integers(1, 99), st.integers(0, 10_000), st.integers(0, 2**32 - 1))
def test_a_router_that_works_is_not_doubted(weight: int, requests: int, seed: int) -> None:
    """Whatever the weight and the number of requests, a fair draw is taken for what it is."""
    candidate = int(default_rng(seed).binomial(requests, weight / 100))
    assert doubt(requests - candidate, candidate, weight) is None
