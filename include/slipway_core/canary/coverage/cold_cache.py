"""How many more slow answers a candidate may have because its cache is colder: it gets so little of the traffic.

A cache holds what was asked lately. At a weight of w % the candidate's sees w requests where stable's sees 100 - w, so
it misses more often, whatever the version is; at equal shares both miss alike. So of the candidate's answers so large a
share may be slow beyond what stable's latencies allow:

    allowance(w) = cold_cache_percent / 100 * (1 - w / 50)    for w < 50, else 0

That is exact for any slowness of a miss: where a share x of the answers comes from another distribution, the part of
all answers above any bound is at most x higher. What it costs: a slow tail of up to that share is not found at this
weight, but at one where no more is granted. A ceiling on latency grants nothing.
"""

from __future__ import annotations

from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.written_numbers import number

# From this weight on, in percent, the candidate's cache is as warm as stable's.
AS_WARM_WEIGHT = 50


def allowed_share(policy: AnalysisPolicy, weight: int | None) -> float:
    """Return the share of the candidate's answers, from 0 to 1, that may be slow for a colder cache.

    :param weight: of the step, in percent; None: no step was begun.
    """
    if weight is None:
        return 0.0
    return policy.cold_cache_percent / 100 * max(0.0, 1 - weight / AS_WARM_WEIGHT)


def allowance_words(policy: AnalysisPolicy, weight: int | None) -> str:
    """Return what a pass at this weight does not say of latency; "" if no more slow answers are allowed."""
    share = allowed_share(policy, weight)
    if not share:
        return ""
    return (
        f" At weight {weight} % up to {number(100 * share)} % more slow answers than stable's are allowed for a colder "
        "cache."
    )
