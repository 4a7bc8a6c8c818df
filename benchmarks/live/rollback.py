"""`rollback_s_at_N_percent`, `bad_answers_at_N_percent`, `decision_to_weight_0_ms`: what a bad candidate costs users.

A candidate that fails N percent of its requests gets its share of the load, and a judge with default settings. What
counts is what the clients saw: from the first bad answer that one of them got to the last answer that the candidate
gave to anybody.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.figure import Figure, MeasureError, median_figure
from benchmarks.live.session import live_model
from slipway_sandbox.load.answers import Answer, failed_elsewhere, harm_by, rate_rps

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel, StepEnd

ERROR_PERCENTS = (2, 5, 20, 100)
RATE_RPS = 200.0
REPEATS = 5
BUDGET_S = 110.0
"""After so long no further repeat is begun: where errors are rare, each takes its time."""

_QUIET_S = 2.0
_LEAST_RATE = 0.95


@dataclass(frozen=True)
class Rollback:
    """One canary that was taken back.

    `seconds` from the first bad answer to the candidate's last answer, `bad_answers` among them, and
    `decision_to_weight_0_ms` from the verdict to the first observation of weight 0.
    """

    seconds: float
    bad_answers: int
    decision_to_weight_0_ms: float


def measure_seconds(percent: int) -> Figure:
    """Return seconds from the first bad answer to weight 0."""
    return median_figure(f"rollback_s_at_{percent}_percent", [one.seconds for one in rollbacks(percent)], "s")


def measure_bad_answers(percent: int) -> Figure:
    """Return bad answers that users got of one canary, in all."""
    counts = [float(one.bad_answers) for one in rollbacks(percent)]
    return median_figure(f"bad_answers_at_{percent}_percent", counts, "answers")


def measure_decision_to_weight_0() -> Figure:
    """Return milliseconds from the verdict to observed weight 0, where all answers are bad."""
    values = [one.decision_to_weight_0_ms for one in rollbacks(100)]
    return median_figure("decision_to_weight_0_ms", values, "ms")


@functools.cache
def rollbacks(percent: int) -> tuple[Rollback, ...]:
    """Return some canaries, one after the other, each of a version that draws its errors anew.

    Several figures come from the same ones. MeasureError as `rollback_of` says.
    """
    found: list[Rollback] = []
    with live_model() as model:
        began = time.monotonic()
        while len(found) < REPEATS and time.monotonic() - began < BUDGET_S:
            found.append(_take_back(model, percent, seed=len(found)))
    return tuple(found)


def _take_back(model: LabModel, percent: int, seed: int) -> Rollback:
    release_run = model.publish(error_percent=percent, seed=seed)
    with model.load(RATE_RPS, f"{percent}-percent-{seed}") as load:
        end = model.watch_step(release_run)
        time.sleep(_QUIET_S)  # so that a late answer of the candidate would be seen
    found = rollback_of(load.answers(), end)
    model.restore(release_run)
    return found


def rollback_of(answers: Sequence[Answer], end: StepEnd) -> Rollback:
    """Return what users met of a canary that ended so.

    MeasureError where the judge did not fail it, the weight was not taken back by one patch, the candidate answered
    a request that was sent after that was observed, a request failed that stable would have answered, or there
    was less load than there should have been.
    """
    harm = harm_by(answers, end.candidate)
    elsewhere = failed_elsewhere(answers, end.candidate)
    late = end.weight_0_at is not None and any(
        one.revision == end.candidate and one.sent > end.weight_0_at for one in answers
    )
    problems = {
        f"the step ended {end.decision} by {end.verdict}: {end.reason}": end.verdict != "fail",
        f"{end.patches} patches led to weight 0": end.patches != 1,
        "the candidate answered after weight 0 was observed": late,
        f"{len(elsewhere)} requests failed without the candidate": bool(elsewhere),
        f"only {rate_rps(answers):.0f} requests/s were sent": rate_rps(answers) < _LEAST_RATE * RATE_RPS,
    }
    found = [problem for problem, is_one in problems.items() if is_one]
    if found or end.weight_0_at is None or harm.seconds is None:
        raise MeasureError("; ".join(found) or "no user met the candidate's errors")
    return Rollback(harm.seconds, harm.bad, 1000 * (end.weight_0_at - end.decided_at))
