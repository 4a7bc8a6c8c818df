"""Shares of errors for a chart: windows are taken together until a point holds enough requests to say something."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slipway_core.read_model.live import LiveSample, LiveWindow

# The evidence page takes as many for a point: one error of fewer requests looks like a disaster.
LEAST_REQUESTS = 20
# The normal distribution's quantile for 95 %, two-sided.
_Z = 1.959964


@dataclass(frozen=True)
class Share:
    """A share of errors in percent with its 95 % interval; all three lie between 0 and 100."""

    percent: float
    low: float
    high: float

    @classmethod
    def of(cls, requests: int, errors: int) -> Share | None:
        """Return the share, with the score interval of E. B. Wilson, "Probable inference, the law of succession, and
        statistical inference", Journal of the American Statistical Association 22 (1927); None without requests.
        """
        if requests <= 0:
            return None
        share = min(errors / requests, 1.0)
        around = share + _Z**2 / (2 * requests)
        reach = _Z * math.sqrt(share * (1 - share) / requests + _Z**2 / (4 * requests**2))
        whole = 1 + _Z**2 / requests
        low, high = max((around - reach) / whole, 0.0), min((around + reach) / whole, 1.0)
        return cls(100 * share, 100 * min(low, share), 100 * max(high, share))


@dataclass(frozen=True)
class PooledErrors:
    """One or more windows taken together, at the end of the last; None: that version was not counted."""

    at: datetime
    stable: Share | None
    candidate: Share | None


def pooled_errors(windows: Sequence[LiveWindow]) -> tuple[list[PooledErrors], bool]:
    """Return the points of the chart, oldest first, and whether windows were taken together for them.

    A point never reaches over a new weight, over another source of the requests, or over a window without data: that
    one stays a point of its own, without shares.
    """
    groups: list[list[LiveWindow]] = []
    for window in windows:
        if groups and _belong_together(groups[-1], window) and _fewest(groups[-1]) < LEAST_REQUESTS:
            groups[-1].append(window)
        else:
            groups.append([window])
    groups = _without_thin_ends(groups)
    return [_point(group) for group in groups], len(groups) < len(windows)


def _belong_together(group: Sequence[LiveWindow], window: LiveWindow) -> bool:
    last = group[-1]
    return (
        not (_is_without_data(last) or _is_without_data(window))
        and last.weight == window.weight
        and last.source == window.source
    )


def _is_without_data(window: LiveWindow) -> bool:
    return window.no_data or window.stable is None or window.candidate is None


def _without_thin_ends(groups: Iterable[list[LiveWindow]]) -> list[list[LiveWindow]]:
    """Give what is left over at a step's end, too few requests for a point, to the point before it."""
    kept: list[list[LiveWindow]] = []
    for group in groups:
        if kept and _belong_together(kept[-1], group[0]) and _fewest(group) < LEAST_REQUESTS:
            kept[-1] = kept[-1] + group
        else:
            kept.append(group)
    return kept


def _fewest(group: Sequence[LiveWindow]) -> int:
    return min(
        sum(sample.requests for sample in samples)
        for samples in (_samples(group, "stable"), _samples(group, "candidate"))
    )


def _samples(group: Iterable[LiveWindow], revision: str) -> list[LiveSample]:
    return [sample for window in group if (sample := getattr(window, revision)) is not None]


def _point(group: Sequence[LiveWindow]) -> PooledErrors:
    shares = {}
    for revision in ("stable", "candidate"):
        samples = _samples(group, revision)
        shares[revision] = Share.of(
            sum(sample.requests for sample in samples), sum(sample.errors for sample in samples)
        )
    return PooledErrors(group[-1].at, shares["stable"], shares["candidate"])
