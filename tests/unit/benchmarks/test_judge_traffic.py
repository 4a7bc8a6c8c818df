"""The simulated traffic is what it says it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.judge.cell import FROM_2, FROM_5
from benchmarks.judge.cells import CELLS
from benchmarks.judge.latency import (
    ENVOY_BOUNDS_MS,
    PROMETHEUS_BOUNDS_MS,
    LatencyModel,
    Lognormal,
    ParetoTail,
    prometheus_quantile,
)
from benchmarks.judge.traffic import Recording, Schedule, Traffic, draw
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

# All tolerances below are at least four standard errors of what is measured, so that another seed would pass.
SEED = 11
LATENCY_MODEL = LatencyModel("a model", Lognormal(20.0, 0.35), ENVOY_BOUNDS_MS)
HALF = CanaryPlan((RolloutStep(weight=50, bake_s=10_000),))


def drawn(
    traffic: Traffic, plan: CanaryPlan = HALF, latency_model: LatencyModel = LATENCY_MODEL, seed: int = SEED
) -> Recording:
    """One canary; with the plan left out, a thousand windows at half the traffic."""
    return draw(traffic, plan, latency_model, np.random.default_rng(seed))


class TestSchedule:
    def test_a_bake_that_does_not_divide_ends_with_a_shorter_window(self) -> None:
        """375 s are 37 windows of 10 s and one of 5 s; the next step begins on time."""
        schedule = Schedule.of(FROM_5)
        assert schedule.seconds[:38].tolist() == [10.0] * 37 + [5.0]
        assert schedule.begins_s[38] == 375
        assert schedule.seconds.sum() == 1500

    def test_windows_have_the_weights_of_their_steps(self) -> None:
        """Thirty windows at each of 2, 5, 10, 25 and 50 %."""
        weights, counts = np.unique(Schedule.of(FROM_2).weight, return_counts=True)
        assert weights.tolist() == [0.02, 0.05, 0.1, 0.25, 0.5]
        assert counts.tolist() == [30] * 5


class TestRequests:
    def test_requests_are_a_poisson_stream_split_by_weight(self) -> None:
        """At 50/s and half the traffic a window of 10 s has 250 on average, with a variance of 250."""
        requests = drawn(Traffic(50)).candidate.requests
        assert requests.mean() == pytest.approx(250, abs=4 * math.sqrt(250 / 1000))
        assert requests.var() == pytest.approx(250, rel=4 * math.sqrt(2 / 1000))

    def test_each_request_is_in_one_bucket(self) -> None:
        """The histogram's sum is the number of requests, window by window."""
        recording = drawn(Traffic(50), FROM_2)
        for revision in (recording.stable, recording.candidate):
            assert (revision.histograms.sum(axis=1) == revision.requests).all()

    def test_the_load_swings_as_far_as_it_says(self) -> None:
        """With a swing of 80 % the busiest minute has nine times the requests of the quietest."""
        recording = drawn(Traffic(500, day_swing=0.8), FROM_2).by_minute()
        total = recording.stable.requests + recording.candidate.requests
        assert total.max() / total.min() == pytest.approx(9.0, rel=0.1)

    def test_the_same_seed_draws_the_same_canary(self) -> None:
        """And another one another."""
        first, again, other = (drawn(Traffic(5), seed=seed) for seed in (1, 1, 2))
        assert (first.candidate.histograms == again.candidate.histograms).all()
        assert (first.candidate.requests != other.candidate.requests).any()


class TestErrors:
    def test_errors_have_the_stated_rate(self) -> None:
        """Half a percent of 500,000 requests: 2500, give or take 50."""
        recording = drawn(Traffic(50))
        errors = recording.stable.errors.sum() + recording.candidate.errors.sum()
        assert errors == pytest.approx(0.005 * 500_000, abs=4 * math.sqrt(2500))

    @pytest.mark.parametrize("correlation", [0.005, 0.02])
    def test_clumped_errors_have_the_variance_of_a_beta_binomial(self, correlation: float) -> None:
        """n p (1 - p) (1 + (n - 1) correlation), at 2500 requests a window; the mean stays."""
        plan = CanaryPlan((RolloutStep(weight=50, bake_s=200_000),))
        found = drawn(Traffic(500, errors=0.05, correlation=correlation), plan).candidate
        rates = found.errors / found.requests
        size = found.requests.mean()
        expected = 0.05 * 0.95 / size * (1 + (size - 1) * correlation)
        assert rates.mean() == pytest.approx(0.05, abs=4 * math.sqrt(expected / rates.size))
        assert rates.var() == pytest.approx(expected, rel=0.12)

    def test_independent_errors_are_binomial(self) -> None:
        """Without correlation the share of windows without an error is that of the binomial law."""
        found = drawn(Traffic(20)).candidate
        expected = binom.pmf(0, found.requests, 0.005).mean()
        error = math.sqrt(expected * (1 - expected) / found.errors.size)
        assert (found.errors == 0).mean() == pytest.approx(expected, abs=4 * error)

    def test_clumps_come_in_each_revision_for_itself(self) -> None:
        """Across windows the two error rates are uncorrelated."""
        found = drawn(Traffic(500, errors=0.05, correlation=0.02))
        rates = (
            found.stable.errors / found.stable.requests,
            found.candidate.errors / found.candidate.requests,
        )
        assert np.corrcoef(*rates)[0, 1] == pytest.approx(0, abs=4 / math.sqrt(1000))

    def test_a_blip_hits_both_for_its_time(self) -> None:
        """For 18 windows of 10 s both fail with 3 %, else never."""
        found = drawn(Traffic(500, errors=0.0, blip_error_rate=0.03, blip_s=180), FROM_2)
        hit = found.stable.errors > 0
        assert hit.sum() == 18
        assert np.diff(np.flatnonzero(hit)).max() == 1
        assert not found.candidate.errors[~hit].any()
        assert found.candidate.errors[hit].any()
        rate = found.stable.errors[hit].sum() / found.stable.requests[hit].sum()
        assert rate == pytest.approx(0.03, rel=0.1)

    def test_a_late_fault_is_the_candidates_alone_and_begins_on_time(self) -> None:
        """Until minute 15 nothing differs; from then on every request of the candidate fails."""
        found = drawn(Traffic(50, errors=0.0, candidate_errors=1.0, fault_begins_s=900), FROM_2)
        late = found.begins_s >= 900
        assert not found.stable.errors.any()
        assert not found.candidate.errors[~late].any()
        assert (found.candidate.errors[late] == found.candidate.requests[late]).all()

    def test_no_errors_means_none(self) -> None:
        """The cells without errors have none."""
        found = drawn(CELLS["no-errors-500rps"].traffic, FROM_2)
        assert found.stable.errors.sum() + found.candidate.errors.sum() == 0


class TestLatency:
    def test_bucket_shares_are_those_of_the_law(self) -> None:
        """A million requests lie in the buckets as many sampled latencies do."""
        found = drawn(Traffic(200)).stable.histograms.sum(axis=0)
        sample = np.random.default_rng(SEED).lognormal(math.log(20.0), 0.35, 1_000_000)
        counted, _ = np.histogram(sample, bins=[0.0, *ENVOY_BOUNDS_MS])
        assert (found / found.sum()) == pytest.approx(counted / counted.sum(), abs=0.0025)

    def test_quantiles_are_those_of_the_law(self) -> None:
        """The median is 20 ms, and 1 % takes longer than 20 e^(2.326 sigma)."""
        for sigma in (0.35, 0.7):
            law = Lognormal(20.0, sigma)
            p99_ms = 20.0 * math.exp(2.3263 * sigma)
            assert law.cdf(np.array([20.0, p99_ms])).tolist() == pytest.approx([0.5, 0.99], abs=1e-4)

    def test_the_pareto_tail_is_as_heavy_as_it_says(self) -> None:
        """Ten times further out there is a share of 10^-1.5 of the tail left."""
        law = ParetoTail(Lognormal(20.0, 0.35), 0.05, 40.0, 1.5)
        beyond = 1 - law.cdf(np.array([400.0, 4000.0, math.inf]))
        assert beyond.tolist() == pytest.approx([0.05 * 10**-1.5, 0.05 * 10**-3.0, 0.0], rel=1e-6, abs=1e-12)

    @pytest.mark.parametrize("bounds", [ENVOY_BOUNDS_MS, PROMETHEUS_BOUNDS_MS])
    @pytest.mark.parametrize("name", ["same-50rps-from2", "wide-50rps", "pareto-50rps"])
    def test_shares_sum_to_one(self, name: str, bounds: tuple[float, ...]) -> None:
        """Nothing falls beside the buckets, slowed down or with a slow tail."""
        latency_model = LatencyModel("a model", CELLS[name].latency_models[0].distribution, bounds)
        shares = latency_model.bucket_shares(np.array([1.0, 1.3, 4.0]), np.array([0.0, 0.01, 1.0]), 5.0)
        assert shares.shape == (3, len(bounds))
        assert shares.sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-12)
        assert (shares >= 0).all()

    def test_slower_means_every_quantile(self) -> None:
        """What took 20 ms takes 26 with a factor of 1.3."""
        latency_model = LatencyModel("a model", Lognormal(20.0, 0.35), (20.0, 26.0, math.inf))
        plain, slower = latency_model.bucket_shares(np.array([1.0, 1.3]), np.zeros(2), 5.0).cumsum(axis=1)
        assert slower[1] == pytest.approx(plain[0])

    def test_a_slow_tail_leaves_the_others_alone(self) -> None:
        """With 1 % five times slower, 1 % more take longer than 100 ms: about half of what was five times 20."""
        latency_model = LatencyModel("a model", Lognormal(20.0, 0.35), (100.0, math.inf))
        shares = latency_model.bucket_shares(np.ones(2), np.array([0.0, 0.01]), 5.0)
        assert shares[1, 1] - shares[0, 1] == pytest.approx(0.005, abs=1e-5)

    def test_the_first_window_of_a_cold_candidate_is_slow(self) -> None:
        """Four times slower in the first window, as ever afterwards; stable is not."""
        found = drawn(CELLS["cold-500rps"].traffic, FROM_2)
        above_50 = found.candidate.histograms[:, list(ENVOY_BOUNDS_MS).index(75.0) :].sum(axis=1)
        assert above_50[0] / found.candidate.requests[0] > 0.8
        assert above_50[1:].sum() / found.candidate.requests[1:].sum() < 0.01
        assert found.stable.histograms[0, list(ENVOY_BOUNDS_MS).index(75.0) :].sum() < 100


class TestWindows:
    def test_windows_hold_what_was_drawn(self) -> None:
        """Counts and buckets come through, the last bound being inf."""
        recording = drawn(Traffic(50), FROM_5)
        windows = list(recording.windows())
        assert len(windows) == recording.seconds.size
        assert sum(window.candidate.errors for window in windows) == recording.candidate.errors.sum()
        assert list(windows[0].stable.latency_buckets) == list(ENVOY_BOUNDS_MS)
        assert sum(windows[9].stable.latency_buckets.values()) == windows[9].stable.requests

    @pytest.mark.parametrize("plan", [FROM_2, FROM_5])
    def test_minutes_are_sums_of_windows(self, plan: CanaryPlan) -> None:
        """Twenty-five, and nothing is lost."""
        recording = drawn(Traffic(50), plan)
        minutes = recording.by_minute()
        assert minutes.seconds.size == 25
        assert minutes.seconds.sum() == 1500
        assert (minutes.candidate.histograms.sum(axis=0) == recording.candidate.histograms.sum(axis=0)).all()
        assert minutes.stable.requests[0] == recording.stable.requests[:6].sum()


class TestPrometheusQuantile:
    def test_it_interpolates_within_the_bucket(self) -> None:
        """The 75th of 100 is halfway through the second bucket, from 10 to 20 ms."""
        assert prometheus_quantile({10.0: 50, 20.0: 50, math.inf: 0}, 0.75) == 15

    def test_the_first_bucket_begins_at_zero(self) -> None:
        """Half of the first bucket."""
        assert prometheus_quantile({10.0: 100, math.inf: 0}, 0.5) == 5

    def test_in_the_last_bucket_it_knows_only_the_highest_bound(self) -> None:
        """Beyond the last finite bound there is nothing to interpolate."""
        assert prometheus_quantile({10.0: 50, 20.0: 0, math.inf: 50}, 0.99) == 20

    def test_an_empty_histogram_has_none(self) -> None:
        """As in Prometheus, NaN."""
        assert math.isnan(prometheus_quantile({10.0: 0, math.inf: 0}, 0.99))


class TestUnseen:
    def test_requests_that_are_given_up_are_errors_that_no_count_of_answers_shows(self) -> None:
        """Three in ten of the candidate's are unanswered; the others' rules see the rest, and all of it good."""
        traffic = Traffic(50, errors=0.0, candidate_unanswered=0.3)
        recording = drawn(traffic)
        windows = [window.candidate for window in recording.windows()]
        requests = sum(one.requests for one in windows)
        assert sum(one.unanswered for one in windows) == pytest.approx(0.3 * requests, rel=0.02)
        assert all(one.errors == one.unanswered and one.begun == one.requests for one in windows)
        answers = [window.candidate for window in recording.of_answers().windows()]
        assert sum(one.requests for one in answers) == requests - sum(one.unanswered for one in windows)
        assert all((one.errors, one.unanswered, one.begun) == (0, 0, None) for one in answers)

    def test_requests_that_are_waited_for_stay_active(self) -> None:
        """They began, are over in no window, and are open at the end of each that follows."""
        plan = CanaryPlan((RolloutStep(weight=50, bake_s=100),))
        windows = list(drawn(Traffic(50, candidate_waiting=1.0, fault_begins_s=50), plan).windows())
        assert [one.candidate.requests > 0 for one in windows] == [True] * 5 + [False] * 5
        begun = np.cumsum([one.candidate.begun for one in windows[5:]])
        assert [one.candidate.active for one in windows[5:]] == begun.tolist()
        assert all(one.stable.active == 0 for one in windows)

    def test_streams_are_windows_of_their_own_that_the_others_do_not_see(self) -> None:
        """One before each window of users; the candidate's errors alone are in them."""
        recording = drawn(Traffic(50, errors=0.0, streamed_per_s=2.0, candidate_stream_errors=0.3))
        windows = list(recording.windows())
        assert [one.source for one in windows[:4]] == ["stream", "users"] * 2
        streamed = [one for one in windows if one.source == "stream"]
        assert all((one.stable.requests, one.stable.errors) == (20, 0) for one in streamed)
        failed = sum(one.candidate.errors for one in streamed) / (20 * len(streamed))
        assert failed == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / (20 * len(streamed))))
        assert all(
            one.source == "users" and not one.candidate.errors for one in recording.of_answers().windows()
        )
