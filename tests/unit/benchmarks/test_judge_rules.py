"""What others' rules say of windows made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from benchmarks.judge.rules import ArgoRollouts, Flagger, Kayenta, Rule, classified_high, others
from slipway_core.metrics.samples import Sample, Window

BOUNDS_MS = (100.0, 500.0, 1000.0, math.inf)


def sample(requests: int, errors: int = 0, slow: int = 0) -> Sample:
    """A sample of which `slow` requests took between 500 and 1000 ms, the others less than 100."""
    return Sample(requests, errors, dict(zip(BOUNDS_MS, (requests - slow, 0, slow, 0), strict=True)))


def minute(candidate: Sample, stable: Sample | None = None, seconds: float = 60.0) -> Window:
    """A window in which stable, unless said otherwise, answered 1000 requests without an error."""
    return Window(seconds, stable or sample(1000), candidate)


def statuses(rule: Rule, windows: Iterable[Window]) -> list[str]:
    """Return the verdict after each window."""
    return [rule.observe(window).status for window in windows]


class TestFlagger:
    def test_the_tenth_failed_check_rolls_back(self) -> None:
        """Below 99 % in ten minutes, not nine."""
        assert statuses(Flagger(), [minute(sample(100, errors=2))] * 10) == ["inconclusive"] * 9 + ["fail"]

    def test_failed_checks_need_not_be_in_a_row(self) -> None:
        """A good minute between bad ones changes nothing."""
        bad, good = minute(sample(100, errors=2)), minute(sample(100))
        assert statuses(Flagger(), [bad, good] * 10)[18:] == ["fail", "fail"]

    def test_99_percent_is_enough(self) -> None:
        """The threshold itself is within the range."""
        assert "fail" not in statuses(Flagger(), [minute(sample(100, errors=1))] * 30)

    def test_a_slow_p99_fails_a_check_too(self) -> None:
        """Two in a hundred beyond 500 ms; one in two hundred is none of its business."""
        assert statuses(Flagger(), [minute(sample(100, slow=2))] * 10)[-1] == "fail"
        assert "fail" not in statuses(Flagger(), [minute(sample(200, slow=1))] * 30)

    def test_failing_on_both_counts_is_one_failed_check(self) -> None:
        """Errors and latency in the same minute do not count twice."""
        assert "fail" not in statuses(Flagger(), [minute(sample(100, errors=5, slow=5))] * 9)

    def test_it_does_not_look_at_stable(self) -> None:
        """A blip that hits both is held against the candidate."""
        blip = minute(sample(100, errors=3), stable=sample(1000, errors=30))
        assert statuses(Flagger(), [blip] * 10)[-1] == "fail"


class TestArgoRollouts:
    def test_more_than_three_failed_measurements_fail(self) -> None:
        """Below 95 % in a fourth minute."""
        assert statuses(ArgoRollouts(), [minute(sample(100, errors=6))] * 4) == ["inconclusive"] * 3 + [
            "fail"
        ]

    def test_95_percent_is_enough(self) -> None:
        """The threshold itself is a success."""
        assert "fail" not in statuses(ArgoRollouts(), [minute(sample(100, errors=5))] * 30)

    def test_latency_is_none_of_its_business(self) -> None:
        """The documented example measures the success rate alone."""
        assert "fail" not in statuses(ArgoRollouts(), [minute(sample(100, slow=100))] * 30)


class TestIntervals:
    @pytest.mark.parametrize("rule", [Flagger, ArgoRollouts])
    def test_shorter_windows_are_added_up_to_a_minute(self, rule: type[Flagger] | type[ArgoRollouts]) -> None:
        """Six windows of 10 s make one check, and one bad window in a good minute fails it or not as the sum does."""
        bad, good = minute(sample(10, errors=10), seconds=10.0), minute(sample(10), seconds=10.0)
        seen = statuses(rule(), [bad, *[good] * 5] * 10)
        first = seen.index("fail") + 1
        assert first == {Flagger: 60, ArgoRollouts: 24}[rule]

    @pytest.mark.parametrize("rule", [Flagger, ArgoRollouts])
    def test_a_minute_without_requests_is_no_measurement(
        self, rule: type[Flagger] | type[ArgoRollouts]
    ) -> None:
        """No traffic is neither good nor bad."""
        assert "fail" not in statuses(rule(), [minute(sample(0))] * 30)


class TestClassifiedHigh:
    def test_it_agrees_with_kayentas_own_example(self) -> None:
        """MannWhitneySuite.scala: 10…40 against 1…4 at 95 % has the interval (6, 39) and the estimate 22.5. Its
        lower end is above 0.25 · 22.5 = 5.625 and not above 0.27 · 22.5 = 6.075.
        """
        experiment, control = np.array([10.0, 20.0, 30.0, 40.0]), np.array([1.0, 2.0, 3.0, 4.0])
        assert classified_high(experiment, control, tolerance=0.25, confidence=0.95)
        assert not classified_high(experiment, control, tolerance=0.27, confidence=0.95)

    def test_a_smaller_experiment_is_not_high(self) -> None:
        """Only an increase is held against the candidate."""
        assert not classified_high(np.arange(25.0), np.arange(25.0) + 100)

    def test_identical_values_are_not_high(self) -> None:
        """Nothing to tell apart, not even by rounding."""
        assert not classified_high(np.zeros(25), np.zeros(25))

    def test_without_values_there_is_no_verdict(self) -> None:
        """A metric that nobody measured passes."""
        assert not classified_high(np.array([]), np.arange(25.0))

    def test_good_candidates_are_rarely_high(self) -> None:
        """With 98 % confidence at most 1 % of equals are called High (one-sided), measured on 2000."""
        rng = np.random.default_rng(5)
        high = sum(classified_high(rng.normal(size=25), rng.normal(size=25)) for _ in range(2000))
        assert high <= 2000 * 0.01 + 4 * math.sqrt(20)


class TestKayenta:
    def test_it_judges_once_at_the_end(self) -> None:
        """Until its time is over it says nothing, however bad."""
        bad = minute(sample(100, errors=100))
        assert statuses(Kayenta(lifetime_s=1500), [bad] * 25) == ["inconclusive"] * 24 + ["fail"]

    def test_equals_pass(self) -> None:
        """No error anywhere, the same latencies."""
        assert statuses(Kayenta(lifetime_s=600), [minute(sample(100))] * 10)[-1] == "pass"

    def test_slower_answers_fail(self) -> None:
        """The candidate's p99 lies higher in every minute, by another amount in each."""
        windows = [minute(sample(1000, slow=50 + number), stable=sample(1000)) for number in range(25)]
        assert statuses(Kayenta(lifetime_s=1500), windows)[-1] == "fail"

    def test_fewer_errors_than_stable_pass(self) -> None:
        """Better is not High."""
        windows = [minute(sample(100), stable=sample(1000, errors=50 + number)) for number in range(25)]
        assert statuses(Kayenta(lifetime_s=1500), windows)[-1] == "pass"

    def test_a_single_dreadful_minute_is_an_outlier(self) -> None:
        """One of twenty-five does not move the ranks."""
        windows = [minute(sample(100, errors=100 if number == 3 else 0)) for number in range(25)]
        assert statuses(Kayenta(lifetime_s=1500), windows)[-1] == "pass"

    def test_without_requests_there_is_nothing_to_hold_against_it(self) -> None:
        """Minutes without requests have no values."""
        assert statuses(Kayenta(lifetime_s=120), [minute(sample(0))] * 2)[-1] == "pass"


def test_the_others_are_three_and_fresh() -> None:
    """Each canary has rules of its own."""
    first, second = others(1500), others(1500)
    assert list(first) == ["Flagger", "Argo", "Kayenta"]
    assert all(first[name] is not second[name] for name in first)
