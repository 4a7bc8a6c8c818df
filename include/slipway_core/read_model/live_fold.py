"""The live document of a canary, made of what its watch knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slipway_core.canary.latency import quantile_ms
from slipway_core.canary.totals import Totals
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample
from slipway_core.read_model.live import (
    WINDOWS_LIMIT,
    ExposureUsed,
    LiveDocument,
    LiveSample,
    LiveWindow,
)
from slipway_core.read_model.stored import cut
from slipway_core.spec.rollout.plan import CanaryPlan

_P50, _P99 = 0.5, 0.99
_CONFIDENCE = 0.95
# JSON has no infinity, and evidence that has grown beyond this says nothing more.
_MOST = 1e300


@dataclass(frozen=True)
class Watched:
    """What a watch tells after a window.

    :param step: index of the step in the plan.
    :param weight_observed: the weight that was seen in the traffic; None before it is reached.
    :param held: a person thinks, or a raise is held: the step has no end.
    :param paused: why a person wants the canary to stay at its weight; "" if nobody does.
    :param decision: what was decided at the end of the step; "" before.
    :param waiting: why the weight is not reached yet; "" if it is, or nobody knows.
    """

    model: str
    version: int
    release_id: str
    step: int
    weight_observed: int | None
    elapsed_s: float
    held: bool
    paused: str
    decision: str
    verdict: Verdict
    unjudged: Totals
    waiting: str = ""


def live_document(
    watched: Watched,
    plan: CanaryPlan,
    new: Sequence[LiveWindow],
    *,
    at: datetime,
    before: LiveDocument | None = None,
) -> LiveDocument:
    """Return the document of a canary.

    :param new: the windows that were judged since `before` was made, oldest first.
    :param at: now.
    :param before: the document until now; another release's counts for nothing.
    """
    about = (watched.model, watched.version, watched.release_id)
    if before is not None and (before.model, before.version, before.release_id) != about:
        before = None
    windows = [*(() if before is None else before.windows), *new]
    step, verdict = plan.steps[watched.step], watched.verdict
    seen = verdict.statistics.canary
    has_end = not (watched.held or watched.paused or watched.decision)
    left_s = max(step.bake_s - watched.elapsed_s, plan.window_s)
    return LiveDocument(
        model=watched.model,
        version=watched.version,
        release_id=cut(watched.release_id),
        written_at=at,
        step=watched.step + 1,
        weights=tuple(one.weight for one in plan.steps),
        weight_intended=0 if watched.decision == "roll_back" else step.weight,
        weight_observed=watched.weight_observed,
        step_elapsed_s=watched.elapsed_s,
        step_bake_s=step.bake_s,
        max_bake_s=plan.max_bake_s,
        window_s=plan.window_s,
        next_decision_at=at + timedelta(seconds=left_s) if has_end else None,
        exposure=ExposureUsed(
            requests=seen.candidate_requests + watched.unjudged.candidate_requests,
            errors=seen.candidate_errors + watched.unjudged.candidate_errors,
            max_requests=plan.exposure.max_requests,
            max_errors=plan.exposure.max_errors,
        ),
        waiting=cut(watched.waiting),
        paused=cut(watched.paused),
        paused_since=_since(watched.paused, None if before is None else before.paused_since, at),
        held=watched.held,
        held_since=_since(watched.held, None if before is None else before.held_since, at),
        decision=watched.decision,
        verdict=verdict.status,
        reason=cut(verdict.reason),
        windows=tuple(windows[-WINDOWS_LIMIT:]),
    )


def live_window(verdict: Verdict, at: datetime) -> LiveWindow:
    """Return a window that was judged, as pages show it."""
    seen, window = verdict.statistics, verdict.window
    return LiveWindow(
        at=at,
        seconds=0.0 if window is None else window.seconds,
        weight=seen.weight,
        source="users" if window is None else window.source,
        status=verdict.status,
        reason=cut(verdict.reason),
        no_data=verdict.no_data,
        stable=None if window is None else _sample(window.stable),
        candidate=None if window is None else _sample(window.candidate),
        evidence={name: _finite(value) for name, value in seen.evidence.items()},
        total_evidence=_finite(seen.total_evidence),
        threshold=_finite(seen.threshold),
        no_worse=_finite(seen.no_worse),
        no_worse_threshold=_finite(seen.no_worse_threshold),
    )


def error_interval(errors: int, requests: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of an error rate, in percent, by Clopper and Pearson.

    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26 (1934). It is for one window, looked at once; the judge's evidence may be looked at after each.

    :param requests: one or more.
    """
    from scipy.special import betaincinv  # the watch has it for the judge; a process that only reads has not

    tail = (1 - _CONFIDENCE) / 2
    low = betaincinv(errors, requests - errors + 1, tail) if errors else 0.0
    high = betaincinv(errors + 1, requests - errors, 1 - tail) if errors < requests else 1.0
    return 100.0 * float(low), 100.0 * float(high)


def _since(lasts: object, known: datetime | None, at: datetime) -> datetime | None:
    """Return since when something lasts; None: it does not."""
    return (known or at) if lasts else None


def _sample(sample: Sample) -> LiveSample:
    requests, errors = sample.requests, sample.errors
    low, high = error_interval(errors, requests) if requests else (None, None)
    p50, p99 = (quantile_ms(sample.latency_buckets, one) for one in (_P50, _P99))
    return LiveSample(
        requests=requests,
        errors=errors,
        error_percent=100.0 * errors / requests if requests else None,
        error_percent_low=low,
        error_percent_high=high,
        p50_ms=None if p50 is None else p50[0],
        p99_ms=None if p99 is None else p99[0],
        p99_is_above=p99 is not None and p99[1],
    )


def _finite(value: float) -> float:
    return 0.0 if math.isnan(value) else min(max(value, 0.0), _MOST)
