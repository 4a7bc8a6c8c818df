"""What the judge looks at: counts of requests, errors and latencies of the two revisions in one window of
time.

A metrics source reads monotonic counters. Two readings make a `Sample`, two samples a `Window`. A reading
that failed is `None` and raises; it never becomes a sample without requests, because silence of the source
says nothing of the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from include.model_release.errors import MetricsUnavailableError


@dataclass(frozen=True)
class Sample:
    """One revision in one window.

    `latency_buckets` maps a bucket's upper bound in ms (`inf` last) to the requests that fell *in* it (not
    cumulative); empty where the source knows no latencies. Raises `MetricsUnavailableError` for NaN, negative
    or impossible counts.
    """

    requests: int
    errors: int
    latency_buckets: Mapping[float, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requests = _count("requests", self.requests)
        errors = _count("errors", self.errors)
        if errors > requests:
            raise _unusable("a sample", "at most as many errors as requests", f"{errors} of {requests}")
        buckets = {
            _bound(bound): _count(f"latency bucket {bound}", value)
            for bound, value in self.latency_buckets.items()
        }
        object.__setattr__(self, "requests", requests)
        object.__setattr__(self, "errors", errors)
        object.__setattr__(self, "latency_buckets", dict(sorted(buckets.items())))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form; the last bucket's bound is the text `inf`."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "latency_buckets": {_bound_text(bound): count for bound, count in self.latency_buckets.items()},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Sample:
        """Rebuild a sample from `to_dict`'s form."""
        buckets = {float(bound): count for bound, count in dict(value.get("latency_buckets") or {}).items()}
        return cls(requests=value["requests"], errors=value["errors"], latency_buckets=buckets)


@dataclass(frozen=True)
class Window:
    """Both revisions over the same `seconds`; comparing them within one window is what makes a common blip
    harmless.
    """

    seconds: float
    stable: Sample
    candidate: Sample

    def __post_init__(self) -> None:
        if not math.isfinite(self.seconds) or self.seconds < 0:
            raise _unusable("a window", "a length in seconds, zero or more", repr(self.seconds))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, enough to judge the window again."""
        return {
            "seconds": self.seconds,
            "stable": self.stable.to_dict(),
            "candidate": self.candidate.to_dict(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Window:
        """Rebuild a window from `to_dict`'s form."""
        return cls(
            seconds=float(value["seconds"]),
            stable=Sample.from_dict(value["stable"]),
            candidate=Sample.from_dict(value["candidate"]),
        )


@dataclass(frozen=True)
class Counters:
    """One reading of a revision's monotonic counters: totals since the counting process began.

    `latency_buckets` holds, for each upper bound in ms, the total that fell in this bucket alone.
    """

    requests: int
    errors: int
    latency_buckets: Mapping[float, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The same checks as a sample's; a counter that is NaN or negative was not read.
        _count("requests", self.requests)
        _count("errors", self.errors)
        for bound, value in self.latency_buckets.items():
            _bound(bound)
            _count(f"latency bucket {bound}", value)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, for a task that must go on after its own restart."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "latency_buckets": {_bound_text(bound): count for bound, count in self.latency_buckets.items()},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Counters:
        """Rebuild a reading from `to_dict`'s form."""
        buckets = {
            float(bound): int(count) for bound, count in dict(value.get("latency_buckets") or {}).items()
        }
        return cls(requests=int(value["requests"]), errors=int(value["errors"]), latency_buckets=buckets)


def counters_delta(before: Counters | None, after: Counters | None) -> Sample:
    """Return what happened between two readings of one revision's counters.

    A counter that went down was reset (its process restarted): as in Prometheus, all that the new reading
    shows happened since. Sources count a request when it begins and its error when it ends, so a window may
    hold more errors than new requests; then each error stands for a request. Raises `MetricsUnavailableError`
    where a reading is missing.
    """
    if before is None or after is None:
        which = "first" if before is None else "second"
        raise MetricsUnavailableError(
            f"the {which} of two readings of a revision's counters is missing",
            expected="two readings that make a window",
            found="no reading",
            remedy="read the metrics source again; a window unseen is not a window without requests",
        )
    if _was_reset(before, after):
        before = Counters(requests=0, errors=0)
    errors = int(after.errors) - int(before.errors)
    return Sample(
        requests=max(int(after.requests) - int(before.requests), errors),
        errors=errors,
        latency_buckets={
            bound: int(count) - int(before.latency_buckets.get(bound, 0))
            for bound, count in after.latency_buckets.items()
        },
    )


def _was_reset(before: Counters, after: Counters) -> bool:
    if after.requests < before.requests or after.errors < before.errors:
        return True
    return any(after.latency_buckets.get(bound, 0) < count for bound, count in before.latency_buckets.items())


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < 0:
        raise _unusable(name, "a number of requests, zero or more", repr(value))
    count = int(value)  # type: ignore[call-overload]  # every finite Real can be made whole
    if count != value:
        raise _unusable(name, "a whole number of requests", repr(value))
    return int(count)


def _bound(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value) or value <= 0:
        raise _unusable("a latency bucket's upper bound", "milliseconds above 0, or inf", repr(value))
    return float(value)


def _bound_text(bound: float) -> str:
    return "inf" if math.isinf(bound) else repr(float(bound))


def _unusable(what: str, expected: str, found: str) -> MetricsUnavailableError:
    return MetricsUnavailableError(
        f"the metrics source gave a value that cannot be used for {what}",
        expected=expected,
        found=found,
        remedy="look at the query or the endpoint that the value comes from",
    )
