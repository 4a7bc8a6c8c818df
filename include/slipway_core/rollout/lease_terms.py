"""Whether a canary's lease outlasts the death of the triggerer that renews it."""

from __future__ import annotations

import math

from slipway_core.errors import SpecError
from slipway_core.lease_limits import LONGEST_LEASE_S
from slipway_core.rollout.lease import LONGEST_RENEWAL_S, renewal_due_s

# From when Airflow gives a dead triggerer's work to another until that one has renewed the lease, on a slow machine.
TAKE_OVER_S = 15.0
# A triggerer that misses one heartbeat is not dead.
HEARTBEATS_PER_THRESHOLD = 2
_THRESHOLD = "`[triggerer] triggerer_health_check_threshold`"


def needed_lease_s(lease_s: float, threshold_s: float) -> float:
    """Return what a lease must last at least: from the last renewal before a death to the first one after it."""
    return renewal_due_s(lease_s) + threshold_s + TAKE_OVER_S


def require_lease_outlasts_take_over(lease_s: float, threshold_s: float, heartbeat_s: float) -> None:
    """Refuse a lease that a guard ends, with a healthy canary, before another triggerer can have renewed it.

    :param lease_s: the release file's `rollout.lease_s`.
    :param threshold_s: Airflow's `[triggerer] triggerer_health_check_threshold`.
    :param heartbeat_s: Airflow's `[triggerer] job_heartbeat_sec`.
    :raises SpecError: it does not fit, or a triggerer that lives is taken for dead between two of its heartbeats.
    """
    least_s = HEARTBEATS_PER_THRESHOLD * heartbeat_s
    if threshold_s < least_s:
        raise SpecError(
            "Airflow takes a triggerer that lives for dead, so two of them would drive one canary",
            expected=f"{_THRESHOLD} of {least_s:g} s or more, {HEARTBEATS_PER_THRESHOLD} heartbeats",
            found=f"{threshold_s:g} s, with `[triggerer] job_heartbeat_sec` of {heartbeat_s:g} s",
            remedy="raise the threshold or lower the heartbeat's interval, on all components of Airflow",
        )
    if lease_s >= needed_lease_s(lease_s, threshold_s):
        return
    wanted_s = math.ceil(threshold_s + LONGEST_RENEWAL_S + TAKE_OVER_S)
    lower_s = math.floor(lease_s - renewal_due_s(lease_s) - TAKE_OVER_S)
    options = [f"`rollout.lease_s` to {wanted_s} or more"] if wanted_s <= LONGEST_LEASE_S else []
    if lower_s >= max(1.0, least_s):
        options.append(f"{_THRESHOLD} to {lower_s} or less")
    if not options:
        fitting_s = math.ceil(least_s + LONGEST_RENEWAL_S + TAKE_OVER_S)
        options = [f"`rollout.lease_s` to {fitting_s} or more and {_THRESHOLD} to {math.ceil(least_s)}"]
    raise SpecError(
        "the canary's lease would run out before another triggerer takes over from one that died",
        expected=f"`rollout.lease_s` of {needed_lease_s(lease_s, threshold_s):.0f} s or more: {threshold_s:g} s until "
        f"a triggerer counts as dead, {renewal_due_s(lease_s):.0f} s between two renewals, and {TAKE_OVER_S:.0f} s to "
        "take over",
        found=f"{lease_s:g} s",
        remedy="set " + ", or ".join(options),
    )
