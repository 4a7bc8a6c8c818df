"""The hypothesis tests of the judge, and the wealth that stands for what each has found so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from slipway_core.canary.coverage.cold_cache import allowed_share
from slipway_core.canary.coverage.histogram_bounds import on_bounds
from slipway_core.canary.coverage.latency_grace import LatencyGrace
from slipway_core.canary.dispersion import Dispersion, correlation_levels, weight_of
from slipway_core.canary.e_process import (
    Floats,
    NullHypothesis,
    Tally,
    WealthProcesses,
    log_factors,
)
from slipway_core.canary.latency import (
    above,
    above_within,
    add_histograms,
    bound_below,
    bounds_at,
    ceiling_bound,
    levels_up_to,
)
from slipway_core.canary.latency_totals import (
    LatencyTotals,
    histogram_from_list,
    histogram_to_list,
)
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName

# What wealth may stand above the threshold, because the factor for bursts may take some of it.
_ROOM = 4.0
# Where "no slower" can be shown; the far tail never has the data for it.
_SHOWN_UP_TO = 0.9


@dataclass(frozen=True)
class HypothesisTest:
    """One null hypothesis that the judge tests over all windows.

    :param name: the evidence that the test is a part of.
    :param against: `worse` tests "the candidate is no worse", so its wealth speaks against the candidate;
        `no_worse` tests "the candidate is worse", so its wealth speaks for the candidate.
    :param level: the level of stable's latency distribution; None: it is about no level.
    :param kind: the row of the kind of events whose correlation counts, in `Dispersion`.
    """

    name: HypothesisName
    against: Literal["worse", "no_worse"]
    level: float | None
    kind: int


class HypothesisTests:
    """The hypothesis tests that a policy asks for, each with its wealth for each correlation."""

    def __init__(self, policy: AnalysisPolicy) -> None:
        self._policy = policy
        self._shares = policy.shares
        self._levels = levels_up_to(policy.latency_quantile)
        self._tests = tuple(_tests_of(policy, self._levels))
        self._rows = {test: row for row, test in enumerate(self._tests)}
        self._correlations = correlation_levels(policy.burst_correlation)
        self._weights = weight_of(self._correlations)
        caps = [
            (_ROOM * policy.fail_threshold / self._share(test)) ** (1 / policy.windows_to_fail)
            for test in self._tests
        ]
        self._processes = WealthProcesses(len(self._tests), len(self._correlations), caps)
        self._dispersion = Dispersion(1 + len(self._levels), policy.burst_correlation)
        self._past: dict[float, int] = {}
        self._latencies = LatencyTotals()
        self._grace = LatencyGrace(policy)
        self._allowed_slow = 0.0
        self._logs: Floats = np.zeros(())
        self._update_logs()

    @property
    def past_latencies(self) -> Mapping[float, int]:
        """Stable's histogram of all windows so far."""
        return self._past

    @property
    def tests_latency(self) -> bool:
        """Whether the candidate has had the time in which a model that has just been loaded may be slow."""
        return self._grace.is_over

    def begin_step(self, weight: int, bake_s: float, *, raised: bool) -> None:
        """Begin another step of the canary; where it raises the weight, the candidate may be cold again."""
        self._allowed_slow = allowed_share(self._policy, weight)
        self._grace.begin_step(bake_s, raised=raised)

    def latency_doubt(self) -> str | None:
        """Return in words that too little of this step was judged by latency; None if enough was."""
        return self._grace.doubt()

    def observe(self, window: Window, *, latency_judged: bool = False) -> None:
        """Test the hypotheses on one window. Which they are, and their shares, follow from earlier windows alone.

        :param latency_judged: whether its latencies were tested otherwise already.
        """
        testable = {test: one for test, one in self._hypotheses(window).items() if one.is_testable}
        if testable:
            rows = [self._rows[test] for test in testable]
            self._processes.multiply(rows, log_factors([*testable.values()], self._weights))
        latency_judged |= any(test.name == "latency" for test in testable)
        if self.tests_latency:
            self._latencies.add(window)
        self._learn(window)
        self._grace.observe(window, self._past, judged=latency_judged)
        self._update_logs()

    def evidence(self) -> dict[HypothesisName, float]:
        """Return the evidence against the candidate by name, each with its share of alpha."""
        found: dict[HypothesisName, float] = {}
        for name, share in self._shares.items():
            rows = [row for test, row in self._rows.items() if test.name == name and test.against == "worse"]
            found[name] = share * float(np.exp(self._logs[rows]).mean())
        return found

    def no_worse(self) -> float:
        """Return the evidence that the candidate is no worse beyond the margin: that of the least sure part.

        Latency counts once it has been seen; a source without latencies shows nothing of them.
        """
        rows = [
            row
            for test, row in self._rows.items()
            if test.against == "no_worse" and (test.name == "errors" or self._processes.windows[row] > 0)
        ]
        return float(np.exp(self._logs[rows]).min())

    def correlation(self) -> float:
        """Return the correlation of errors that the evidence is counted with."""
        # The first test is that of errors.
        return float(self._correlations[self._least[0]])

    def latency_words(self, name: HypothesisName) -> str:
        """Return in words the latencies that `latency` or `latency_ceiling` is about; "" if none were seen.

        Of the levels that are compared it is the one with most evidence.
        """
        ceiling_ms = self._policy.latency_ceiling_ms
        if name == "latency_ceiling" and ceiling_ms is not None:
            return self._latencies.against_ceiling(self._policy.latency_quantile, ceiling_ms)
        rows = {
            test.level: row
            for test, row in self._rows.items()
            if test.name == "latency" and test.against == "worse"
        }
        worst = max(self._levels, key=lambda level: float(self._logs[rows[level]]))
        return self._latencies.against_stable(worst)

    # --- the null hypotheses about a window ---

    def _hypotheses(self, window: Window) -> dict[HypothesisTest, NullHypothesis]:
        bounds: list[float | None] = [None] * len(self._levels)
        if self.tests_latency:
            bounds = bounds_at(self._past, self._levels)
        bound_of = dict(zip(self._levels, bounds, strict=True))
        found = {test: self._hypothesis(test, window, bound_of) for test in self._tests}
        return {test: one for test, one in found.items() if one is not None}

    def _hypothesis(
        self, test: HypothesisTest, window: Window, bound_of: Mapping[float, float | None]
    ) -> NullHypothesis | None:
        """Return what a test asks of this window; None if it cannot ask."""
        candidate = Tally(window.candidate.errors, window.candidate.requests)
        if test.name == "errors":
            stable = Tally(window.stable.errors, window.stable.requests)
            margin = self._policy.error_margin_percent / 100.0
            if test.against == "worse":
                return NullHypothesis(candidate, stable, margin)
            return NullHypothesis(stable, candidate, -margin)
        if test.name == "error_ceiling":
            return NullHypothesis(candidate, None, (self._policy.error_ceiling_percent or 0.0) / 100.0)
        if test.name == "latency_ceiling":
            return self._latency_ceiling(window)
        return self._latency(test, window, None if test.level is None else bound_of[test.level])

    def _latency(self, test: HypothesisTest, window: Window, bound: float | None) -> NullHypothesis | None:
        stable, speaks_against = window.stable.latency_buckets, test.against == "worse"
        # Its bounds may be others than stable's: what is not certain counts for the null hypothesis.
        taken_for: Literal["fast", "slow"] = "fast" if speaks_against else "slow"
        candidate = on_bounds(window.candidate.latency_buckets, stable, taken_for)
        if bound is None or bound not in stable or bound not in candidate:
            return None
        # How much slower is no worse: the candidate above the bound, stable above the bound less the margin.
        slow = above(candidate, bound)
        tolerated = above_within(stable, bound / (1.0 + self._policy.latency_margin_percent / 100.0))
        if speaks_against:
            return NullHypothesis(slow, tolerated, self._allowed_slow)
        return NullHypothesis(tolerated, slow, 0.0)

    def _latency_ceiling(self, window: Window) -> NullHypothesis | None:
        candidate, ceiling_ms = window.candidate.latency_buckets, self._policy.latency_ceiling_ms
        if ceiling_ms is None or not self.tests_latency:
            return None
        bound = ceiling_bound(candidate, ceiling_ms)
        if bound is None:
            return None
        return NullHypothesis(above(candidate, bound), None, 1.0 - self._policy.latency_quantile)

    # --- learning ---

    def _learn(self, window: Window) -> None:
        """Take in what the hypotheses about the next window will depend on."""
        stable = window.stable
        self._dispersion.add(_ERRORS, stable.errors, stable.requests)
        bounds = bounds_at(self._past, self._levels)
        for place, bound in enumerate(bounds):
            if bound is not None and bound in stable.latency_buckets:
                # From the bound below on: what is tolerated of the candidate lies in that bucket.
                slow = above(stable.latency_buckets, bound_below(stable.latency_buckets, bound))
                self._dispersion.add(_ERRORS + 1 + place, int(slow.events), int(slow.count))
        if stable.latency_buckets:
            # The past only chooses the bounds; where they have changed, it is brought to the present ones.
            past = on_bounds(self._past, stable.latency_buckets, "slow")
            self._past = add_histograms(past, stable.latency_buckets)

    def _update_logs(self) -> None:
        """Work out the log of each test's wealth: that of the least favourable correlation."""
        factors = self._dispersion.log_factors()
        logs = np.log(self._processes.wealth) + factors[[test.kind for test in self._tests]]
        self._least = logs.argmin(axis=1)
        self._logs = logs.min(axis=1)

    def _share(self, test: HypothesisTest) -> float:
        """Return the share of alpha of a test against the candidate; what speaks for it shares with nobody."""
        return self._shares[test.name] if test.against == "worse" else 1.0

    # --- state ---

    def to_dict(self) -> dict[str, Any]:
        """Return the state, JSON-ready."""
        return {
            "processes": self._processes.to_dict(),
            "dispersion": self._dispersion.to_list(),
            "past": histogram_to_list(self._past),
            "latencies": self._latencies.to_dict(),
            "warm_windows": self._grace.windows,
            "allowed_slow": self._allowed_slow,
            "grace": self._grace.to_dict(),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over a state of `to_dict`.

        :raises ValueError: it is the state of other tests, or a number in it is invalid.
        :raises KeyError: a part is missing.
        :raises TypeError: a part has another form.
        """
        self._processes.restore(value["processes"])
        self._dispersion.restore(value["dispersion"])
        self._past = histogram_from_list(value["past"])
        self._latencies = LatencyTotals.from_dict(value["latencies"])
        self._grace.restore(int(value["warm_windows"]), value["grace"])
        self._allowed_slow = float(value["allowed_slow"])
        if not 0 <= self._allowed_slow <= 1:
            raise ValueError(f"{self._allowed_slow}: not a share of the answers")
        self._update_logs()


# The row of errors in `Dispersion`; slow answers at each level follow.
_ERRORS = 0


def _tests_of(policy: AnalysisPolicy, levels: Sequence[float]) -> list[HypothesisTest]:
    """Return the tests in the order in which a saved state has them.

    A ceiling on errors and "no more errors" look at errors; a ceiling on latency looks at the last level.
    """
    tests = [HypothesisTest("errors", "worse", None, _ERRORS)]
    kinds = {level: _ERRORS + 1 + place for place, level in enumerate(levels)}
    tests += [HypothesisTest("latency", "worse", level, kind) for level, kind in kinds.items()]
    if policy.error_ceiling_percent is not None:
        tests.append(HypothesisTest("error_ceiling", "worse", None, _ERRORS))
    if policy.latency_ceiling_ms is not None:
        tests.append(HypothesisTest("latency_ceiling", "worse", None, kinds[levels[-1]]))
    tests.append(HypothesisTest("errors", "no_worse", None, _ERRORS))
    tests += [
        HypothesisTest("latency", "no_worse", level, kind)
        for level, kind in kinds.items()
        if level <= _SHOWN_UP_TO
    ]
    return tests
