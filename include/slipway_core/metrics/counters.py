"""One process's monotonic counters, and what it counted between two looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipway_core.metrics.histograms import added, grown
from slipway_core.metrics.request_flow import RequestFlow
from slipway_core.metrics.values import (
    buckets_from_dict,
    buckets_to_dict,
    checked_bound,
    checked_count,
)


@dataclass(frozen=True)
class Counters:
    """One reading of a revision's monotonic counters: totals since the counting process began.

    :param requests: those that were answered.
    :param errors: those of them that were answered with an error.
    :param latency_buckets: for each upper bound in ms, the total that fell in this bucket alone.
    :param flow: what is known of requests that began, answered or not; None: the source cannot tell.
    :raises MetricsUnavailableError: a count is NaN, negative or impossible.
    """

    requests: int
    errors: int
    latency_buckets: Mapping[float, int] = field(default_factory=dict)
    flow: RequestFlow | None = None

    def __post_init__(self) -> None:
        # The same checks as a sample's; a counter that is NaN or negative was not read.
        checked_count("requests", self.requests)
        checked_count("errors", self.errors)
        for bound, value in self.latency_buckets.items():
            checked_bound(bound)
            checked_count(f"latency bucket {bound}", value)

    def at(self, moment: float, before: Counters | None = None) -> Counters:
        """Return the counters with what their flow is known to be at `moment`, see `RequestFlow.at`."""
        if self.flow is None:
            return self
        known = None if before is None or counts_were_reset(before, self) else before.flow
        return replace(self, flow=self.flow.at(moment, self.requests, self.errors, known))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, for a task that must go on after its own restart."""
        return {
            "requests": self.requests,
            "errors": self.errors,
            "latency_buckets": buckets_to_dict(self.latency_buckets),
            **({} if self.flow is None else {"flow": self.flow.to_dict()}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Counters:
        """Rebuild a reading from `to_dict`'s form."""
        flow = value.get("flow")
        return cls(
            requests=int(value["requests"]),
            errors=int(value["errors"]),
            latency_buckets={
                bound: int(count) for bound, count in buckets_from_dict(value.get("latency_buckets")).items()
            },
            flow=None if flow is None else RequestFlow.from_dict(flow),
        )


@dataclass(frozen=True)
class Growth:
    """What was counted between two looks, to be added up over processes.

    `begun` and `active` are None if the source cannot tell.
    """

    requests: int = 0
    errors: int = 0
    unanswered: int = 0
    begun: int | None = None
    active: int | None = None
    latency_buckets: Mapping[float, int] = field(default_factory=dict)

    def plus(self, other: Growth) -> Growth:
        """Return both together; what one of them cannot tell is what the other can."""
        return Growth(
            self.requests + other.requests,
            self.errors + other.errors,
            self.unanswered + other.unanswered,
            _sum(self.begun, other.begun),
            _sum(self.active, other.active),
            added(self.latency_buckets, other.latency_buckets),
        )


NOTHING = Counters(requests=0, errors=0)
"""What a process that has just been started has counted."""


def growth(before: Counters, after: Counters) -> Growth:
    """Return what one process counted since `before`, or since it was started again.

    A histogram that went down while the counts did not was reset alone.
    """
    was_reset = counts_were_reset(before, after)
    known = NOTHING if was_reset else before
    found = Growth(
        requests=int(after.requests) - int(known.requests),
        errors=int(after.errors) - int(known.errors),
        latency_buckets=grown(known.latency_buckets, after.latency_buckets),
    )
    flow, then = after.flow, known.flow
    if flow is None or (then is None and known is not NOTHING):
        # What began before the first reading is unknown.
        return found if flow is None else replace(found, active=flow.active)
    settled, failed, unanswered, begun = (
        (0, 0, 0, 0) if then is None else (then.settled, then.failed, then.unanswered, then.begun)
    )
    failures = max(0, flow.failed - failed)
    return replace(
        found,
        # A high-water mark that was carried over may stand above what is seen now.
        requests=max(0, flow.settled - settled, failures),
        errors=failures,
        unanswered=min(failures, max(0, flow.unanswered - unanswered)),
        begun=max(0, flow.begun - begun),
        active=flow.active,
    )


def counts_were_reset(before: Counters, after: Counters) -> bool:
    """Return whether the counting process was started again since `before`."""
    if after.requests < before.requests or after.errors < before.errors:
        return True
    return before.flow is not None and after.flow is not None and after.flow.begun < before.flow.begun


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
