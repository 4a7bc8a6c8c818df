from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from slipway_core.canary.dispersion import LEVELS, RATES, Dispersion, correlation_levels, weight_of
from slipway_core.canary.e_process import (
    FIRST_SHARE,
    PLENTY,
    RATIO_WEIGHTS,
    RATIOS,
    NullHypothesis,
    Tally,
    WealthProcesses,
    log_factors,
)
from tests.support.examples import examples

INDEPENDENT = weight_of(np.array([1e-9]))

# Rates that a table of a beta distribution can be made for, and the two ends.
rates = st.floats(0.0, 1.0).map(lambda rate: rate if 1e-4 < rate < 1 - 1e-4 else round(rate))


def outcomes(count: int, rate: float, correlation: float) -> np.ndarray:
    """Chances of 0 … count events when those of a window come together with `correlation`."""
    k = np.arange(count + 1)
    if correlation == 0 or rate in (0.0, 1.0):
        return stats.binom.pmf(k, count, rate)
    weight = 1 / correlation - 1
    return stats.betabinom.pmf(k, count, rate * weight, (1 - rate) * weight)


def mean_factors(
    suspect: np.ndarray, reference: np.ndarray | None, margin: float, correlation: float
) -> np.ndarray:
    """The exact mean of each factor, over all outcomes with the chances `suspect` and `reference`."""
    weights = weight_of(np.array([correlation]))
    mean = np.zeros(len(RATIOS))
    for (events, chance), (others, other_chance) in itertools.product(
        enumerate(suspect), enumerate(reference if reference is not None else [1.0])
    ):
        beside = None if reference is None else Tally(others, len(reference) - 1)
        hypothesis = NullHypothesis(Tally(events, len(suspect) - 1), beside, margin)
        mean += chance * other_chance * np.exp(log_factors([hypothesis], weights)[0, 0])
    return mean


# --- the factors of one window ---


@settings(max_examples=examples(75), deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    rates,
    rates,
    st.sampled_from([0.0, 0.005, 0.05, 0.3]),
    st.sampled_from([0.001, 0.02, 0.3]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_factors_are_fair_under_every_smaller_correlation(
    stable_count: int,
    count: int,
    rate: float,
    share: float,
    margin: float,
    correlation: float,
    part: float,
) -> None:
    """Summed exactly over all outcomes, no factor gains on average while the candidate is worse by the margin at
    most, whatever the rate and however clumped the events are, up to the correlation it is made for.
    """
    candidate = outcomes(count, share * min(rate + margin, 1.0), correlation * part)
    stable = outcomes(stable_count, rate, correlation * part)
    assert np.all(mean_factors(candidate, stable, margin, correlation) <= 1 + 1e-9)


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), rates, rates, st.sampled_from([0.0, 0.02, 0.2]))
def test_factors_against_its_being_worse_are_fair(
    stable_count: int, count: int, rate: float, share: float, correlation: float
) -> None:
    """With the roles turned and the margin taken off, no factor gains while the candidate is worse by the margin."""
    margin = 0.05
    stable_rate = rate * (1 - margin)
    candidate_rate = stable_rate + margin + share * (1 - stable_rate - margin)
    stable = outcomes(stable_count, stable_rate, correlation)
    candidate = outcomes(count, candidate_rate, correlation)
    assert np.all(mean_factors(stable, candidate, -margin, max(correlation, 1e-9)) <= 1 + 1e-9)


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 12), rates, st.floats(0.001, 0.9), st.sampled_from([0.001, 0.02, 0.3]))
def test_factors_against_a_limit_are_fair(count: int, share: float, limit: float, correlation: float) -> None:
    """Without a reference the margin is the limit, and no factor gains while the rate is at or below it."""
    candidate = outcomes(count, share * limit, correlation)
    assert np.all(mean_factors(candidate, None, limit, correlation) <= 1 + 1e-9)


def test_without_bursts_and_margin_the_factor_is_the_conditional_likelihood_ratio() -> None:
    """Given how many events there were in all, the candidate's are binomial; the factor is that likelihood's ratio."""
    n_s, n_c, k_s, k_c = 970.0, 30.0, 5.0, 3.0
    logs = log_factors([NullHypothesis(Tally(k_c, n_c), Tally(k_s, n_s), 0.0)], INDEPENDENT)[0, 0]
    for ratio, log in zip(RATIOS, logs, strict=True):
        share, alike = (1 + ratio) * n_c / ((1 + ratio) * n_c + n_s), n_c / (n_c + n_s)
        wanted = k_c * math.log(share / alike) + k_s * math.log((1 - share) / (1 - alike))
        assert log == pytest.approx(wanted, rel=1e-6)


def test_mixed_over_the_share_the_factor_is_lindon_and_maleks_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Averaged over a uniform prior on the candidate's share of events, the factors give the closed form of the
    multinomial test (Lindon and Malek 2022): a beta-binomial likelihood over a binomial one.
    """
    n_s, n_c, k_s, k_c = 800.0, 200.0, 9.0, 8.0
    alike = n_c / (n_c + n_s)

    def factor(share: float) -> float:
        ratio = share * (1 - alike) / ((1 - share) * alike) - 1
        monkeypatch.setattr("slipway_core.canary.e_process.RATIOS", np.array([ratio]))
        return math.exp(
            log_factors([NullHypothesis(Tally(k_c, n_c), Tally(k_s, n_s), 0.0)], INDEPENDENT)[0, 0, 0]
        )

    mixed, _ = integrate.quad(factor, 0.0, 1.0)
    closed = special.beta(k_c + 1, k_s + 1) / (alike**k_c * (1 - alike) ** k_s)
    assert mixed == pytest.approx(closed, rel=1e-5)


@given(st.integers(1, 400), st.integers(1, 400), st.data())
def test_an_event_more_never_lowers_a_factor(count: int, stable_count: int, data: st.DataObject) -> None:
    """More of the candidate's answers failing raises every factor, more of stable's lowers it."""
    weights = weight_of(correlation_levels(0.02))
    events = data.draw(st.integers(0, count - 1))
    others = data.draw(st.integers(0, stable_count - 1))

    def factors(candidate: int, stable: int) -> np.ndarray:
        return log_factors(
            [NullHypothesis(Tally(candidate, count), Tally(stable, stable_count), 0.001)], weights
        )

    assert np.all(factors(events + 1, others) > factors(events, others))
    assert np.all(factors(events, others + 1) < factors(events, others))


# --- wealth ---


def test_the_whole_stake_enters_in_time() -> None:
    """While every factor is 1 the wealth stays 1, components and reserve together."""
    wealth = WealthProcesses(1, 2, [10.0])
    assert np.all(wealth.wealth == 1.0)
    for _ in range(50):
        wealth.multiply([0], np.zeros((1, 2, len(RATIOS))))
        assert wealth.wealth == pytest.approx(np.ones((1, 2)))
    assert wealth.components.sum(axis=2) == pytest.approx(np.full((1, 2), 1 - (1 - FIRST_SHARE) / 50))
    assert RATIO_WEIGHTS.sum() == pytest.approx(1.0)


@given(st.lists(st.floats(-50, 400), min_size=1, max_size=20))
def test_a_window_raises_the_wealth_by_its_cap_at_most(logs: list[float]) -> None:
    """What is beyond the cap is given up, and wealth is never negative."""
    wealth = WealthProcesses(1, 1, [10.0])
    for log in logs:
        before = float(wealth.wealth[0, 0]) + 1.0
        wealth.multiply([0], np.full((1, 1, len(RATIOS)), log))
        assert 0 < wealth.wealth[0, 0] <= 10.0 * before + 0.1 + 1e-9


def test_wealth_stays_a_number() -> None:
    """However long it grows, the wealth is finite and can be written as JSON."""
    wealth = WealthProcesses(1, 1, [1000.0])
    for _ in range(500):
        wealth.multiply([0], np.full((1, 1, len(RATIOS)), 400.0))
    assert wealth.wealth[0, 0] == pytest.approx(len(RATIOS) * PLENTY)


def test_hypothesis_tests_without_data_keep_their_wealth() -> None:
    """Only the tests that are named change, and the reserve of the others waits for their first data."""
    wealth = WealthProcesses(2, 1, [10.0, 10.0])
    wealth.multiply([1], np.full((1, 1, len(RATIOS)), 0.5))
    assert wealth.wealth[0, 0] == 1.0
    assert wealth.wealth[1, 0] > 1.0


def test_wealth_survives_json() -> None:
    """The state read back is the state written, to the last bit; that of other tests is refused."""
    wealth = WealthProcesses(2, 3, [10.0, 20.0])
    wealth.multiply([0], np.full((1, 3, len(RATIOS)), 0.123))
    again = WealthProcesses(2, 3, [10.0, 20.0])
    again.restore(json.loads(json.dumps(wealth.to_dict())))
    assert np.array_equal(again.wealth, wealth.wealth)
    with pytest.raises(ValueError, match="shape"):
        WealthProcesses(1, 3, [10.0]).restore(wealth.to_dict())


# --- clumps ---


def test_even_windows_rule_clumps_out() -> None:
    """Where stable's errors come one by one, all correlations but the smallest lose their say, the largest first."""
    rng = np.random.default_rng(7)
    dispersion = Dispersion(1, 0.02)
    for _ in range(60):
        dispersion.add(0, int(rng.binomial(490, 0.005)), 490)
    factors = dispersion.log_factors()[0]
    assert factors[0] > math.log(100)
    assert list(factors[:4]) == sorted(factors[:4], reverse=True)
    assert factors[-1] == 0


def test_clumped_windows_do_not_rule_clumps_out() -> None:
    """Where errors do come together with the largest correlation, its factor stays small."""
    rng = np.random.default_rng(11)
    weight, high = 1 / 0.02 - 1, 0
    for _ in range(100):
        dispersion = Dispersion(1, 0.02)
        for _ in range(60):
            rate = rng.beta(0.005 * weight, 0.995 * weight)
            dispersion.add(0, int(rng.binomial(490, rate)), 490)
        high += dispersion.log_factors()[0, 0] > math.log(20)
    assert high <= 5


def test_without_events_nothing_is_known_of_clumps() -> None:
    """A stable without errors leaves the largest correlation in force."""
    dispersion = Dispersion(1, 0.02)
    for _ in range(100):
        dispersion.add(0, 0, 500)
    assert abs(dispersion.log_factors()[0, 0]) < math.log(3)


def test_the_likelihood_is_the_negative_binomial_one() -> None:
    """What is added up for a window is the log likelihood, up to what correlation and rate do not change."""
    events, count, rate, correlation = 4, 300, 0.01, correlation_levels(0.02)[2]
    four, none = Dispersion(1, 0.02), Dispersion(1, 0.02)
    four.add(0, events, count)
    none.add(0, 0, count)
    nearest = int(np.abs(RATES - rate).argmin())
    rate_on_grid = RATES[nearest]
    shape = rate_on_grid * weight_of(np.array(correlation))
    success = shape / (shape + count * rate_on_grid)
    wanted = stats.nbinom.logpmf(events, shape, success) - stats.nbinom.logpmf(0, shape, success)
    difference = np.array(four.to_list())[0, 2, nearest] - np.array(none.to_list())[0, 2, nearest]
    assert difference + math.log(1 / math.factorial(events)) == pytest.approx(wanted, rel=1e-6)


def test_levels_fall_from_the_policys_correlation() -> None:
    """The largest is the policy's own, the others fall evenly on a logarithmic scale; 0 means no clumps at all."""
    levels = correlation_levels(0.02)
    assert len(levels) == LEVELS
    assert levels[0] == pytest.approx(0.02)
    assert np.all(np.diff(np.log(levels)) == pytest.approx(math.log(1 / 40) / (LEVELS - 1)))
    assert np.all(correlation_levels(0.0) <= 1e-5)
