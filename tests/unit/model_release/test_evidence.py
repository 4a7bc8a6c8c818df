from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.model_release.evidence import (
    DIFFERENCES,
    Purse,
    Tally,
    border_rates,
    cap_for,
    effective_count,
    no_worse_bet,
    one_rate_bets,
    two_rate_bets,
)
from include.model_release.latency import above, add_histograms, ceiling_bound, comparison_at, quantile_bound


def _binomial(count: int, rate: float) -> list[float]:
    return [math.comb(count, k) * rate**k * (1 - rate) ** (count - k) for k in range(count + 1)]


rates = st.floats(0.0, 1.0)
guesses = st.floats(0.0005, 0.3)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 8),
    rates,
    rates,
    guesses,
    st.sampled_from([0.0, 0.005, 0.05]),
    st.sampled_from([0.0, 0.02, 0.3]),
)
def test_bets_against_no_worse_are_fair(
    stable_count: int, count: int, rate: float, share: float, guess: float, margin: float, correlation: float
) -> None:
    """Summed exactly over all outcomes, no bet gains on average while the candidate is worse by the margin at
    most.
    """
    candidate_rate = share * min(rate + margin, 1.0)
    mean = np.zeros_like(DIFFERENCES)
    outcomes = itertools.product(
        enumerate(_binomial(stable_count, rate)), enumerate(_binomial(count, candidate_rate))
    )
    for (stable_errors, p_stable), (errors, p_candidate) in outcomes:
        mean += (
            p_stable
            * p_candidate
            * two_rate_bets(
                Tally(stable_errors, stable_count),
                Tally(errors, count),
                stable_guess=guess,
                margin=margin,
                correlation=correlation,
            )
        )
    assert np.all(mean <= 1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), rates, rates, guesses)
def test_bets_on_no_worse_are_fair(
    stable_count: int, count: int, rate: float, share: float, guess: float
) -> None:
    """Summed exactly over all outcomes, the bet on "no worse" gains nothing while the candidate is worse by
    the margin.
    """
    margin = 0.05
    stable_rate = rate * (1 - margin)
    candidate_rate = stable_rate + margin + share * (1 - stable_rate - margin)
    mean = 0.0
    outcomes = itertools.product(
        enumerate(_binomial(stable_count, stable_rate)), enumerate(_binomial(count, candidate_rate))
    )
    for (stable_errors, p_stable), (errors, p_candidate) in outcomes:
        bet = no_worse_bet(
            Tally(stable_errors, stable_count),
            Tally(errors, count),
            stable_guess=guess,
            margin=margin,
            correlation=0.0,
        )
        mean += p_stable * p_candidate * float(bet[0])
    assert mean <= 1 + 1e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), rates, st.floats(0.001, 0.5), st.sampled_from([0.0, 0.1]))
def test_bets_against_a_limit_are_fair(count: int, share: float, limit: float, correlation: float) -> None:
    """Summed exactly over all outcomes, no bet gains on average while the rate is within the limit."""
    chances = _binomial(count, share * limit)
    mean = sum(
        chance * one_rate_bets(Tally(errors, count), limit=limit, correlation=correlation)
        for errors, chance in enumerate(chances)
    )
    assert np.all(mean <= 1 + 1e-9)


def test_without_a_margin_the_border_is_the_pooled_rate() -> None:
    """For a margin of 0 the projection has a closed form: the rate of both together."""
    low, high = border_rates(np.array([0.01]), np.array([0.2]), (90.0, 10.0), 0.0)
    assert low[0] == pytest.approx((90 * 0.01 + 10 * 0.2) / 100)
    assert high[0] == low[0]


def test_the_bet_on_one_candidate_without_a_comparison_is_the_likelihood_ratio() -> None:
    """For one rate the bet is the plain likelihood ratio, here worked out by hand."""
    bets = one_rate_bets(Tally(2, 3), limit=0.1, correlation=0.0)
    rate = 0.1 + DIFFERENCES * 0.9
    assert bets == pytest.approx((rate / 0.1) ** 2 * ((1 - rate) / 0.9))


@given(st.integers(0, 10**9), st.floats(0.0, 1.0))
def test_clumps_make_requests_worth_less_but_never_nothing(count: int, correlation: float) -> None:
    """The effective count lies between one request and all of them, and below 1/correlation."""
    worth = effective_count(count, correlation)
    assert min(count, 1) - 1e-9 <= worth <= count + 1e-9
    assert correlation == 0 or count == 0 or worth <= 1 / correlation * (1 + 1e-9) or count == 1


@given(st.integers(2, 4), st.floats(10.0, 1e4))
def test_the_cap_lets_exactly_so_many_windows_decide(windows: int, threshold: float) -> None:
    """With the cap, one bet that wins all it can reaches the threshold in that many windows and no sooner."""
    purse = Purse(9, cap_for(threshold, 9, windows))
    factors = np.array([math.inf] + [0.0] * 8)
    for _ in range(windows - 1):
        purse.bet(factors)
        assert purse.wealth < threshold
    purse.bet(factors)
    assert purse.wealth >= threshold * (1 - 1e-9)


@given(st.lists(st.floats(0.0, 50.0), max_size=20))
def test_a_purse_stays_a_fortune(factors: list[float]) -> None:
    """Wealth is never negative, starts at 1, and stays 1 where nothing is won or lost."""
    purse, idle = Purse(3, math.inf), Purse(3, math.inf)
    assert purse.wealth == 1.0
    for factor in factors:
        purse.bet(np.full(3, factor))
        idle.bet(np.ones(3))
        assert purse.wealth >= 0
        assert idle.wealth == pytest.approx(1.0)
    copy = Purse.from_dict(purse.to_dict())
    assert copy.wealth == purse.wealth


HISTOGRAM = {5.0: 10, 10.0: 80, 20.0: 9, 50.0: 1, math.inf: 0}


def test_a_quantile_is_told_by_its_bucket() -> None:
    """The smallest bound that holds the share; none in an empty histogram."""
    assert quantile_bound(HISTOGRAM, 0.5) == 10.0
    assert quantile_bound(HISTOGRAM, 0.99) == 20.0
    assert quantile_bound({}, 0.5) is None
    assert above(HISTOGRAM, 10.0) == Tally(10.0, 100.0)


def test_the_candidate_is_compared_at_the_next_bound_beyond_the_margin() -> None:
    """25 % beyond 10 ms is 12.5 ms, whose next bound is 20 ms: a margin that the buckets can tell."""
    chosen = comparison_at(HISTOGRAM, 0.5, 0.25)
    assert chosen is not None
    assert (chosen.stable_bound_ms, chosen.candidate_bound_ms) == (10.0, 20.0)
    assert comparison_at({10.0: 1, math.inf: 0}, 0.5, 0.25) is None
    assert comparison_at({math.inf: 5}, 0.5, 0.25) is None


def test_a_ceiling_is_judged_at_the_next_bound_above_it() -> None:
    """A ceiling between two bounds is rounded up; above the last bound it cannot be told."""
    assert ceiling_bound(HISTOGRAM, 20.0) == 20.0
    assert ceiling_bound(HISTOGRAM, 21.0) == 50.0
    assert ceiling_bound(HISTOGRAM, 51.0) is None
    assert add_histograms({5.0: 1}, {5.0: 2, 10.0: 3}) == {5.0: 3, 10.0: 3}
