"""How fast a server's memory grows: a line through the samples that a few outliers do not turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Caches and pools fill with the first requests; these are not growth.
_WARM_UP_SHARE = 1 / 3
_LEAST_SAMPLES = 8
_LEAST_REQUESTS = 200
_PER = 1000.0
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Growth:
    """The slope in MiB per 1000 requests, and its interval."""

    mib: float
    low_mib: float
    high_mib: float


def growth_of(samples: Sequence[tuple[int, float]]) -> Growth | None:
    """Return the growth behind the warm-up: the median slope of all pairs (Theil and Sen); None for too few samples.

    :param samples: how many requests were answered, and the memory in MiB then.
    """
    from scipy.stats import theilslopes  # half a second, which only the task that asks shall pay

    if not samples or samples[-1][0] < _LEAST_REQUESTS:
        return None
    warm = [(x, y) for x, y in samples if x >= samples[-1][0] * _WARM_UP_SHARE]
    if len(warm) < _LEAST_SAMPLES or len({x for x, _ in warm}) < _LEAST_SAMPLES:
        return None
    found = theilslopes([y for _, y in warm], [x for x, _ in warm], alpha=_CONFIDENCE)
    return Growth(_PER * float(found.slope), _PER * float(found.low_slope), _PER * float(found.high_slope))
