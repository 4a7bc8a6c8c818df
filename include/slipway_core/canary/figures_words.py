"""The words of a verdict that are made of counts: what was seen of both revisions, what is left, what is held."""

from __future__ import annotations

from slipway_core.canary.streamed import streams_summary
from slipway_core.canary.totals import Totals
from slipway_core.metrics.samples import Window


def rates(total: Totals) -> str:
    """Return the errors of both revisions: users', and those of streamed and replayed requests where there were any."""
    users = (
        f"candidate {total.candidate_errors} errors in {total.candidate_requests}, "
        f"stable {total.stable_errors} in {total.stable_requests}"
    )
    if total.streamed_windows:
        users += f"; {streams_summary(total)}"
    if not total.replayed_windows:
        return users
    return (
        f"{users}; replayed: candidate {total.replayed_errors} in {total.replayed_requests}, "
        f"stable {total.stable_replayed_errors} in {total.stable_replayed_requests}"
    )


def left_words(left_s: float, step: Totals) -> str:
    """Return how much of the bake is left, and for how long nobody has asked the candidate in this step."""
    idle_s = step.idle_seconds
    idle = f" (the candidate has had no requests for {idle_s:.0f} s)" if idle_s else ""
    return f"{left_s:.0f} s of the bake are left{idle}"


def resting_words(step: Totals, canary: Totals) -> str:
    """Return on how many requests a pass rests for which users alone have sent too few."""
    # Where the step has enough of the candidate's users, it is stable that had too few over the whole canary.
    total, where = (step, "in this step") if step.replayed_requests else (canary, "in this canary")
    seen = total.candidate_requests + total.replayed_requests
    return (
        f"; it rests on {seen} requests {where}, of them {total.replayed_requests} replayed golden requests"
    )


def held_words(window: Window, number: int, most: int) -> str:
    """Return why a window that the cluster disturbed is not judged; it is such a window `number` of at most `most`."""
    candidate = window.candidate
    return (
        f"Held: the cluster took a pod of the candidate away ({window.disruption}); its {candidate.errors} errors in "
        f"{candidate.requests} requests do not count against the model (window {number} of at most {most} in this "
        "step)."
    )
