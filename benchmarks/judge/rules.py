"""What others' rules say of the same windows, at their documented thresholds.

Each is asked as the judge is: `observe(window) -> RuleVerdict`, whose status is `inconclusive` until the rule
has decided, and final then. Windows may be of any length; they are added up to the rule's interval.

These are the rules and not the programs: who advances the weight, and when, is the plan's business here (a
failed check makes Flagger wait, which would give it more checks to fail). In their favour, a minute in which
the candidate got no request counts as no measurement, not as a failed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.judge.latency import Floats, prometheus_quantile
from slipway_core.canary.verdict import Status
from slipway_core.metrics.samples import Sample, Window

INTERVAL_S = 60.0


@dataclass(frozen=True)
class RuleVerdict:
    """What a rule says after a window, and why."""

    status: Status
    reason: str


UNDECIDED = RuleVerdict("inconclusive", "Not decided yet.")


class Rule(Protocol):
    """What tells whether a canary is to be rolled back."""

    def observe(self, window: Window) -> RuleVerdict:
        """Take in one window and judge all that was seen so far."""
        ...


def _added(one: Sample, other: Sample) -> Sample:
    buckets = dict(one.latency_buckets)
    for bound, count in other.latency_buckets.items():
        buckets[bound] = buckets.get(bound, 0) + count
    return Sample(one.requests + other.requests, one.errors + other.errors, buckets)


class _Interval:
    """Adds windows up; `add` returns the sum once it is `INTERVAL_S` long, and begins anew."""

    def __init__(self) -> None:
        self._sum: Window | None = None

    def add(self, window: Window) -> Window | None:
        if self._sum is not None:
            window = Window(
                self._sum.seconds + window.seconds,
                _added(self._sum.stable, window.stable),
                _added(self._sum.candidate, window.candidate),
            )
        whole = window.seconds >= INTERVAL_S - 1e-6
        self._sum = None if whole else window
        return window if whole else None


class _FailedChecks:
    """Fails when more than `allowed` intervals failed, in a row or not. Subclasses say when one does."""

    allowed: int

    def __init__(self) -> None:
        self._interval = _Interval()
        self._failed = 0

    def observe(self, window: Window) -> RuleVerdict:
        """Take in one window and judge all that was seen so far."""
        whole = self._interval.add(window)
        if whole is not None and whole.candidate.requests > 0:
            self._failed += self._check_fails(whole.candidate)
        if self._failed > self.allowed:
            return RuleVerdict("fail", f"{self._failed} checks failed, {self.allowed} may.")
        return UNDECIDED

    def _check_fails(self, candidate: Sample) -> bool:
        raise NotImplementedError


class Flagger(_FailedChecks):
    """Flagger: each minute at least 99 % of the candidate's requests must succeed and their p99 be at most
    500 ms; the tenth failed check rolls back.

    Thresholds: https://docs.flagger.app/usage/metrics and https://docs.flagger.app/usage/how-it-works
    (`threshold: 10`, "max number of failed metric checks before rollback"; `request-success-rate` min 99,
    `request-duration` max 500, both `interval: 1m`). A check that fails on both counts fails once, failed
    checks need not be in a row, and the rollback comes when their number *reaches* the threshold:
    https://github.com/fluxcd/flagger/blob/main/pkg/controller/scheduler.go
    """

    allowed = 9
    success_percent = 99.0
    p99_ms = 500.0

    def _check_fails(self, candidate: Sample) -> bool:
        succeeded = 100.0 * (1 - candidate.errors / candidate.requests)
        p99_ms = prometheus_quantile(dict(candidate.latency_buckets), 0.99)
        return succeeded < self.success_percent or p99_ms > self.p99_ms


class ArgoRollouts(_FailedChecks):
    """Argo Rollouts: at least 95 % of the candidate's requests must succeed; `failureLimit: 3`.

    The example of its documentation, https://argo-rollouts.readthedocs.io/en/stable/features/analysis/
    (`successCondition: result[0] >= 0.95`, `failureLimit: 3`), measured each minute instead of each five, in
    its favour. The text there says three failed measurements; the controller wants more than the limit, hence
    four, in a row or not: `assessMetricFailureInconclusiveOrError` in
    https://github.com/argoproj/argo-rollouts/blob/master/analysis/analysis.go
    """

    allowed = 3
    success_share = 0.95

    def _check_fails(self, candidate: Sample) -> bool:
        return 1 - candidate.errors / candidate.requests < self.success_share


class Kayenta:
    """Kayenta's default judge (NetflixACAJudge): once, after `lifetime_s` seconds, Mann-Whitney's test on the
    minutes' error rates and on their p99, the candidate's against stable's.

    https://spinnaker.io/docs/guides/user/canary/judge/ and, for the constants,
    https://github.com/spinnaker/kayenta/tree/master/kayenta-judge/src/main/scala/com/netflix/kayenta/judge
    (NetflixACAJudge.scala: outliers beyond 3 interquartile ranges removed, `tolerance = 0.25`,
    `confLevel = 0.98`). Of two metrics one that is `High` halves the score, which is below any usual mark: the
    canary fails. Kayenta would have a baseline of the candidate's size started; here it gets stable itself.
    """

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self._interval = _Interval()
        self._seen_s = 0.0
        self._minutes: list[Window] = []

    def observe(self, window: Window) -> RuleVerdict:
        """Take in one window; judge when the canary's time is over."""
        self._seen_s += window.seconds
        whole = self._interval.add(window)
        if whole is not None:
            self._minutes.append(whole)
        if self._seen_s < self.lifetime_s - 1e-6:
            return UNDECIDED
        high = [name for name, metric in _METRICS.items() if self._is_high(metric)]
        return RuleVerdict("fail" if high else "pass", f"Classified as High: {', '.join(high) or 'none'}.")

    def _is_high(self, metric: Callable[[Sample], float]) -> bool:
        experiment = np.array([metric(minute.candidate) for minute in self._minutes])
        control = np.array([metric(minute.stable) for minute in self._minutes])
        return classified_high(_cleaned(experiment), _cleaned(control))


def classified_high(
    experiment: Floats, control: Floats, *, tolerance: float = 0.25, confidence: float = 0.98
) -> bool:
    """Say whether Kayenta's MannWhitneyClassifier calls `experiment` High against `control`, one value a
    minute each.

    It does when the lower end of the confidence interval of their shift is above `tolerance` times the
    Hodges-Lehmann estimate of the shift, and the mean is no lower. That interval is the test turned inside
    out: its lower end is above d exactly when Mann-Whitney's test (normal approximation, continuity
    correction) rejects a shift of d, one-sided at (1 - confidence) / 2.
    """
    if not experiment.size or not control.size or np.array_equal(np.sort(experiment), np.sort(control)):
        return False
    shift = float(np.median(experiment[:, None] - control[None, :]))
    if experiment.mean() < control.mean():
        return False
    test = mannwhitneyu(
        experiment - tolerance * abs(shift), control, alternative="greater", method="asymptotic"
    )
    return bool(test.pvalue < (1 - confidence) / 2)


def _cleaned(values: Floats) -> Floats:
    # As Kayenta does: no NaN, and nothing beyond 3 interquartile ranges that is not within the 1st to 99th
    # percentile besides.
    values = values[~np.isnan(values)]
    if not values.size:
        return values
    p1, p25, p75, p99 = np.percentile(values, [1, 25, 75, 99])
    lowest, highest = min(p1, p25 - 3 * (p75 - p25)), max(p99, p75 + 3 * (p75 - p25))
    kept: Floats = values[(values >= lowest) & (values <= highest)]
    return kept


def _error_rate(sample: Sample) -> float:
    return sample.errors / sample.requests if sample.requests else math.nan


def _p99_ms(sample: Sample) -> float:
    return prometheus_quantile(dict(sample.latency_buckets), 0.99)


_METRICS: dict[str, Callable[[Sample], float]] = {"error rate": _error_rate, "p99": _p99_ms}


def others(lifetime_s: float) -> dict[str, Rule]:
    """Return the rules of others by name, fresh for one canary that may last `lifetime_s` seconds."""
    return {"Flagger": Flagger(), "Argo": ArgoRollouts(), "Kayenta": Kayenta(lifetime_s)}
