"""`weight_change_failed_requests`: whether it costs users anything when their shares are changed."""

from __future__ import annotations

import random
import time

from benchmarks.figure import Figure, MeasureError
from benchmarks.live.session import live_model
from slipway_core.rollout.next_action import ShiftWeight, StartCanary
from slipway_sandbox.load.answers import Answer, rate_rps

CHANGES = 100
RATE_RPS = 200.0
SEED = 4


def measure() -> Figure:
    """Count failed requests while a healthy candidate's weight is changed again and again, as a release does."""
    with live_model() as model:
        release_run = model.publish()
        first, *others = weights(CHANGES + 1, SEED)
        lease_holder = model.lease_holder(release_run)
        model.drive(StartCanary(release_run.storage_uri, first), lease_holder.take)
        with model.load(RATE_RPS, "weight-changes") as load:
            began = time.monotonic()
            for weight in others:
                model.drive(ShiftWeight(weight, release_run.storage_uri), lease_holder.keep)
            seconds = time.monotonic() - began
        answers = load.answers()
        model.restore(release_run)
    return figure_of(answers, seconds)


def weights(count: int, seed: int) -> list[int]:
    """Return percents from 1 to 99, none like the one before it."""
    drawn = random.Random(seed)
    found = [1]
    while len(found) < count:
        found.append(drawn.choice([weight for weight in range(1, 100) if weight != found[-1]]))
    return found


def figure_of(answers: list[Answer], seconds: float) -> Figure:
    """Return the failed ones among the answers. MeasureError where fewer than two revisions gave them."""
    revisions = {one.revision for one in answers if one.revision is not None}
    if len(revisions) != 2:
        raise MeasureError(
            f"Expected answers of two revisions; found {', '.join(sorted(revisions)) or 'none'}."
        )
    failed = sum(one.error is not None for one in answers)
    note = f"of {len(answers)} at {rate_rps(answers):.0f} requests/s; {CHANGES} changes in {seconds:.0f} s"
    return Figure("weight_change_failed_requests", float(failed), "requests", note=note)
