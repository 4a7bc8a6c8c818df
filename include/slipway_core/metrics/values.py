"""What a metrics source may say: counts, bounds of buckets and moments, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from slipway_core.errors import MetricsUnavailableError

_SHOWN_LIMIT = 80


def checked_count(name: str, value: Any) -> int:
    """Return the count; raise `MetricsUnavailableError` where it is NaN, infinite, negative or broken."""
    if not _is_number(value) or math.isinf(value) or value < 0:
        raise unusable(name, "a number of requests, zero or more", _shown(value))
    count = int(value)
    if count != value:
        raise unusable(name, "a whole number of requests", repr(value))
    return count


def check_moment(what: str, value: Any) -> None:
    """Raise `MetricsUnavailableError` unless the value is a moment in unix seconds."""
    if not _is_number(value) or math.isinf(value) or value < 0:
        raise unusable(f"the moment of {what}", "unix seconds", _shown(value))


def checked_bound(value: Any) -> float:
    """Return a bucket's upper bound; raise `MetricsUnavailableError` where it is invalid."""
    if not _is_number(value) or value <= 0:
        raise unusable("a latency bucket's upper bound", "milliseconds above 0, or inf", _shown(value))
    return float(value)


def checked_buckets(buckets: Mapping[Any, Any]) -> dict[float, int]:
    """Return a histogram by rising bound; raise `MetricsUnavailableError` where a bound or a count is invalid."""
    found = {
        checked_bound(bound): checked_count(f"latency bucket {bound}", count)
        for bound, count in buckets.items()
    }
    return dict(sorted(found.items()))


def buckets_to_dict(buckets: Mapping[float, int]) -> dict[str, int]:
    """Return a JSON-ready form; the last bucket's bound is the text `inf`."""
    return {"inf" if math.isinf(bound) else repr(float(bound)): count for bound, count in buckets.items()}


def buckets_from_dict(value: Mapping[str, Any] | None) -> dict[float, Any]:
    """Rebuild a histogram from `buckets_to_dict`'s form; its counts are not checked here."""
    return {float(bound): count for bound, count in dict(value or {}).items()}


def unusable(what: str, expected: str, found: str) -> MetricsUnavailableError:
    """Return the error that says what cannot be used."""
    return MetricsUnavailableError(
        f"the metrics source gave a value that cannot be used for {what}",
        expected=expected,
        found=found,
        remedy="look at the query or the endpoint that the value comes from",
    )


def _is_number(value: object) -> bool:
    """Return whether the value is a number that a float can hold, perhaps infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LIMIT else f"{text[:_SHOWN_LIMIT]}…"
