"""Draws the windows of one canary: requests, errors and latency histograms of both revisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.judge.latency import Floats, LatencyModel
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep

Counts = NDArray[np.int64]

MINUTE_S = 60.0
# In the diurnal cells the swing of a day is pressed into this time, so that a canary sees all of it.
DAY_S = 1500.0
# At the day's peak answers are this much slower than on average.
DAY_SLOWDOWN = 0.3
# Below and at this share of the traffic the candidate's cache is colder than stable's, where a cell says so.
SMALL_WEIGHT = 0.1


@dataclass(frozen=True)
class Traffic:
    """What both revisions have in common, and how the candidate differs. Rates are shares from 0 to 1.

    Requests arrive as a Poisson stream of `rate_per_s`, of which the candidate gets its weight. Failures of
    one revision within one window have the intra-window correlation `correlation` (beta-binomial). With
    `day_swing` the load swings by that share around its mean, errors with it, latencies by up to 30 %. A blip
    lifts the error rate of both to `blip_error_rate` for `blip_s` seconds that begin at a random moment.

    `candidate_errors` (None: as stable's), `slowdown` (all latencies times that) and `tail_share` (that share
    of the answers takes `tail_factor` times as long) hold from `fault_begins_s` on. The candidate's first
    window is `cold_factor` times slower.

    With `load_rise` the load is that share of itself higher where the candidate has all traffic, and less so below,
    errors with it, latencies by half of it. For `raise_cold_s` seconds after each raise `raise_cold_share` of the
    candidate's answers take `tail_factor` times as long, and up to a weight of `SMALL_WEIGHT` `small_weight_tail` of
    them do (its cache is colder than stable's). Its server is away for `outage_s` seconds, once at a random moment, or
    every `outage_every_s` seconds.

    Of all requests the share `unanswered`, and of the candidate's while it is faulty `candidate_unanswered`, are never
    answered, and their clients give up; `candidate_waiting` of them are never answered, and their clients wait on. With
    `streamed_per_s` so many golden requests a second are streamed to each revision as well; while it is faulty
    `candidate_stream_errors` of the candidate's hold an error.
    """

    rate_per_s: float
    errors: float = 0.005
    correlation: float = 0.0
    day_swing: float = 0.0
    blip_error_rate: float = 0.0
    blip_s: float = 0.0
    candidate_errors: float | None = None
    slowdown: float = 1.0
    tail_share: float = 0.0
    tail_factor: float = 5.0
    cold_factor: float = 1.0
    fault_begins_s: float = 0.0
    load_rise: float = 0.0
    raise_cold_s: float = 0.0
    raise_cold_share: float = 0.0
    small_weight_tail: float = 0.0
    outage_s: float = 0.0
    outage_every_s: float = 0.0
    unanswered: float = 0.0
    candidate_unanswered: float = 0.0
    candidate_waiting: float = 0.0
    streamed_per_s: float = 0.0
    candidate_stream_errors: float = 0.0

    @property
    def shows_what_began(self) -> bool:
        """Whether the windows are those of a router that counts requests as they begin."""
        return bool(self.unanswered or self.candidate_unanswered or self.candidate_waiting)


@dataclass(frozen=True)
class Drawn:
    """One revision's windows: counts of shape (windows,), histograms of shape (windows, buckets).

    `requests` are those that are over, and `unanswered` of them (and of `errors`) never got an answer; `waiting` began
    in the window and are active for good. Where the router does not show what began, both are 0.
    """

    requests: Counts
    errors: Counts
    histograms: Counts
    unanswered: Counts
    waiting: Counts
    shows_what_began: bool = False

    def summed(self, starts: Counts) -> Drawn:
        """Return the sums over the groups of windows that begin at the indices `starts`."""
        counts = {name: one for name, one in vars(self).items() if name != "shows_what_began"}
        sums = {name: np.add.reduceat(one, starts, axis=0) for name, one in counts.items()}
        return replace(self, **sums)

    def samples(self, bounds_ms: tuple[float, ...]) -> Iterator[Sample]:
        """Yield each window's sample."""
        active = np.cumsum(self.waiting)
        counts = (self.requests, self.errors, self.histograms, self.unanswered, self.waiting, active)
        for requests, errors, histogram, lost, waiting, open_now in zip(
            *(one.tolist() for one in counts), strict=True
        ):
            buckets = dict(zip(bounds_ms, histogram, strict=True))
            if not self.shows_what_began:
                yield Sample(requests, errors, buckets)
                continue
            yield Sample(requests, errors, buckets, lost, begun=requests + waiting, active=open_now)

    def of_answers(self) -> Drawn:
        """Return what a count of answers shows: nothing of those that were never answered."""
        none = np.zeros_like(self.unanswered)
        return replace(
            self,
            requests=self.requests - self.unanswered,
            errors=self.errors - self.unanswered,
            unanswered=none,
            waiting=none,
            shows_what_began=False,
        )


@dataclass(frozen=True)
class Recording:
    """A whole canary: all windows there would be if nobody ended it. Shapes are (windows,)."""

    bounds_ms: tuple[float, ...]
    begins_s: Floats
    seconds: Floats
    stable: Drawn
    candidate: Drawn
    streamed: tuple[Window, ...] = ()

    def windows(self) -> Iterator[Window]:
        """Yield the windows, each made when it is asked for: a canary that fails early costs little.

        A window of streams comes before that of the users of the same time.
        """
        both = zip(self.stable.samples(self.bounds_ms), self.candidate.samples(self.bounds_ms), strict=True)
        for place, (seconds, (stable, candidate)) in enumerate(zip(self.seconds.tolist(), both, strict=True)):
            if self.streamed:
                yield self.streamed[place]
            yield Window(seconds, stable, candidate)

    def of_answers(self) -> Recording:
        """Return the same canary as counts of answers show it."""
        return replace(
            self, stable=self.stable.of_answers(), candidate=self.candidate.of_answers(), streamed=()
        )

    def by_minute(self) -> Recording:
        """Return the same canary in windows of a minute, each the sum of the windows that begin in it."""
        minute = np.floor(self.begins_s / MINUTE_S + 1e-9)
        starts = np.flatnonzero(np.diff(minute, prepend=-1.0))
        return replace(
            self,
            begins_s=self.begins_s[starts],
            seconds=np.add.reduceat(self.seconds, starts),
            stable=self.stable.summed(starts),
            candidate=self.candidate.summed(starts),
        )


@dataclass(frozen=True)
class Schedule:
    """When each window begins, how long it is, and the candidate's share of the traffic in it; shapes
    (windows,).
    """

    begins_s: Floats
    seconds: Floats
    weight: Floats

    @classmethod
    def of(cls, plan: CanaryPlan) -> Schedule:
        """Cut each step's bake into windows of `plan.window_s`; what is left over makes a shorter last one."""
        windows = [
            (length, step.weight / 100) for step in plan.steps for length in _lengths(step, plan.window_s)
        ]
        seconds, weight = np.array(windows).T
        return cls(np.cumsum(seconds) - seconds, seconds, weight)

    @property
    def end_s(self) -> float:
        """When the last window ends."""
        return float(self.begins_s[-1] + self.seconds[-1])

    @property
    def since_raise_s(self) -> Floats:
        """How long before each window the weight was raised last."""
        raised = np.where(np.diff(self.weight, prepend=0.0) > 0, self.begins_s, 0.0)
        since: Floats = self.begins_s - np.maximum.accumulate(raised)
        return since


def _lengths(step: RolloutStep, window_s: float) -> list[float]:
    whole = int(step.bake_s // window_s)
    rest = step.bake_s - whole * window_s
    return [window_s] * whole + ([rest] if rest > 0 else [])


def draw(
    traffic: Traffic, plan: CanaryPlan, latency_model: LatencyModel, rng: np.random.Generator
) -> Recording:
    """Draw one canary. The same generator state gives the same canary."""
    schedule = Schedule.of(plan)
    middle_s = schedule.begins_s + schedule.seconds / 2
    day = traffic.day_swing * np.sin(2 * np.pi * (middle_s / DAY_S + rng.random()))
    rise = traffic.load_rise * schedule.weight
    load, scale = (1 + day) * (1 + rise), (1 + DAY_SLOWDOWN * day) * (1 + rise / 2)
    errors = traffic.errors * load
    if traffic.blip_s:
        begins_s = rng.uniform(0, middle_s[-1] - traffic.blip_s)
        errors[(middle_s >= begins_s) & (middle_s < begins_s + traffic.blip_s)] = traffic.blip_error_rate
    faulty = middle_s >= traffic.fault_begins_s
    candidate_errors = errors.copy()
    if traffic.candidate_errors is not None:
        candidate_errors[faulty] = traffic.candidate_errors
    candidate_scale = scale * np.where(faulty, traffic.slowdown, 1.0)
    candidate_scale[0] *= traffic.cold_factor
    tail = np.where(faulty, traffic.tail_share, 0.0)
    tail[schedule.since_raise_s < traffic.raise_cold_s] = traffic.raise_cold_share
    if traffic.small_weight_tail:
        tail[schedule.weight <= SMALL_WEIGHT] = traffic.small_weight_tail
    if traffic.outage_s:
        away = _outages(traffic, schedule, rng)
        candidate_errors = 1 - (1 - candidate_errors) * (1 - away)

    def revision(share: Floats, errors: Floats, scale: Floats, tail_share: Floats, ends: _Ends) -> Drawn:
        began = rng.poisson(traffic.rate_per_s * load * schedule.seconds * share)
        none = np.zeros_like(began)
        waiting = rng.binomial(began, ends.waiting) if ends.waiting.any() else none
        lost = rng.binomial(began - waiting, ends.unanswered) if ends.unanswered.any() else none
        answered = began - waiting - lost
        failed = rng.binomial(answered, _clumped(errors, traffic.correlation, rng))
        buckets = latency_model.bucket_shares(scale, tail_share, traffic.tail_factor)
        histograms = rng.multinomial(answered, buckets)
        return Drawn(answered + lost, failed + lost, histograms, lost, waiting, traffic.shows_what_began)

    always = np.ones_like(middle_s)
    stable_ends = _Ends(always * traffic.unanswered, always * 0.0)
    candidate_ends = _Ends(
        np.where(faulty, traffic.candidate_unanswered, traffic.unanswered),
        np.where(faulty, traffic.candidate_waiting, 0.0),
    )
    stable = revision(1 - schedule.weight, errors, scale, np.zeros_like(tail), stable_ends)
    candidate = revision(schedule.weight, candidate_errors, candidate_scale, tail, candidate_ends)
    return Recording(
        latency_model.bounds_ms,
        schedule.begins_s,
        schedule.seconds,
        stable,
        candidate,
        _streamed(traffic, schedule.seconds, faulty, rng) if traffic.streamed_per_s else (),
    )


@dataclass(frozen=True)
class _Ends:
    """Of a revision's requests by window: the shares that are given up, and that are waited for, unanswered."""

    unanswered: Floats
    waiting: Floats


def _streamed(
    traffic: Traffic, seconds: Floats, faulty: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Window, ...]:
    """Draw the windows of golden requests that are streamed to both revisions."""
    asked = np.rint(traffic.streamed_per_s * seconds).astype(np.int64)
    failed = rng.binomial(asked, np.where(faulty, traffic.candidate_stream_errors, 0.0))
    return tuple(
        Window(length, Sample(count, 0), Sample(count, bad), "stream")
        for length, count, bad in zip(seconds.tolist(), asked.tolist(), failed.tolist(), strict=True)
    )


def _outages(traffic: Traffic, schedule: Schedule, rng: np.random.Generator) -> Floats:
    # The share of each window in which the candidate's server is away; an outage lies within one window.
    away = np.zeros_like(schedule.seconds)
    if traffic.outage_every_s:
        times = np.arange(traffic.outage_every_s * rng.random(), schedule.end_s, traffic.outage_every_s)
    else:
        times = np.array([rng.uniform(0, schedule.end_s)])
    hit = np.searchsorted(schedule.begins_s, times, side="right") - 1
    away[hit] = traffic.outage_s / schedule.seconds[hit]
    return away


def _clumped(rates: Floats, correlation: float, rng: np.random.Generator) -> Floats:
    # Beta-binomial: a rate of its own for each window, with mean m and a + b = 1/correlation - 1.
    if correlation == 0:
        return rates
    drawn, size = rates.copy(), 1 / correlation - 1
    mixed = (rates > 0) & (rates < 1)
    drawn[mixed] = rng.beta(rates[mixed] * size, (1 - rates[mixed]) * size)
    return drawn
