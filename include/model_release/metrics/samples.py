"""What the judge looks at: counts of requests, errors and latencies of both revisions in one window of time.

A metrics source reads monotonic counters, series by series: `Reading`. Two readings make a `Sample`, two
samples a `Window`. A reading that failed raises; it never becomes a sample without requests, because a source
that does not answer says nothing about the model. The samples of a window come from one source: users' requests, or
golden requests that were replayed to both revisions. Never from both: another mix of requests has other latencies.

The difference is taken here, series by series, and not by PromQL's rate() or increase(). Those extrapolate to
the edges of their range (so counts are no longer whole), and lose what a new series counted before its second
sample, which for a counter by status code is the first error of all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, get_args

from include.model_release.errors import MetricsUnavailableError

Source = Literal["users", "replay"]
_SHOWN_LIMIT = 80


@dataclass(frozen=True)
class Sample:
    """One revision in one window.

    :param latency_buckets: maps a bucket's upper bound in ms (`inf` last) to the requests that fell *in* it (not
        cumulative); empty where the source knows no latencies.
    :raises MetricsUnavailableError: a count is NaN, negative or impossible.
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
    """Both revisions over the same time: what hits both alike then counts against neither.

    :param seconds: the length of the window.
    :param source: whose requests all of them were.
    :raises MetricsUnavailableError: the length or the source is none that a window can have.
    """

    seconds: float
    stable: Sample
    candidate: Sample
    source: Source = "users"

    def __post_init__(self) -> None:
        if not math.isfinite(self.seconds) or self.seconds < 0:
            raise _unusable("a window", "a length in seconds, zero or more", repr(self.seconds))
        if self.source not in get_args(Source):
            raise _unusable("a window's source", " or ".join(get_args(Source)), repr(self.source))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, enough to judge the window again."""
        return {
            "source": self.source,
            "seconds": self.seconds,
            "stable": self.stable.to_dict(),
            "candidate": self.candidate.to_dict(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Window:
        """Rebuild a window from `to_dict`'s form; one without a source was recorded when all were users'."""
        return cls(
            seconds=float(value["seconds"]),
            stable=Sample.from_dict(value["stable"]),
            candidate=Sample.from_dict(value["candidate"]),
            source=value.get("source", "users"),
        )


@dataclass(frozen=True)
class Counters:
    """One reading of a revision's monotonic counters: totals since the counting process began.

    :param latency_buckets: for each upper bound in ms, the total that fell in this bucket alone.
    :raises MetricsUnavailableError: a count is NaN, negative or impossible.
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
    hold more errors than new requests; then each error stands for a request.

    :raises MetricsUnavailableError: a reading is missing.
    """
    if before is None or after is None:
        which = "first" if before is None else "second"
        raise MetricsUnavailableError(
            f"the {which} of two readings of a revision's counters is missing",
            expected="two readings that make a window",
            found="no reading",
            remedy="read the metrics source again; a window that was not seen is not a window without requests",
        )
    growth = _growth(before, after)
    return Sample(
        requests=max(growth.requests, growth.errors),
        errors=growth.errors,
        latency_buckets=growth.latency_buckets,
    )


@dataclass(frozen=True)
class SeriesReading:
    """What is known of one series: the newest count, and when it was taken (unix seconds)."""

    at: float
    counters: Counters

    def __post_init__(self) -> None:
        _moment("a series", self.at)


@dataclass(frozen=True)
class Reading:
    """What a source showed of one revision.

    A reading without series is of a revision that is watched and has not had a request yet.

    A series that claims to be newer than the reading is as new as that: else it would look known for ever, and nothing
    of it would count.

    :param at: the moment of the newest data (unix seconds), as the source dates it, not the moment of the query.
    :param series: by name, each one process's count of one thing.
    """

    at: float
    series: Mapping[str, SeriesReading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _moment("a reading", self.at)
        if any(one.at > self.at for one in self.series.values()):
            held = {
                name: SeriesReading(min(one.at, self.at), one.counters) for name, one in self.series.items()
            }
            object.__setattr__(self, "series", held)

    @classmethod
    def of(cls, at: float, series: Mapping[str, Counters]) -> Reading:
        """Return a reading whose series were all seen at the same moment."""
        return cls(at, {name: SeriesReading(at, counters) for name, counters in series.items()})

    def remembering(self, before: Reading) -> Reading:
        """Return this reading with all that `before` knew of series that this one lacks, or shows no newer.

        A series may be missing for a while and come back: then its whole count must not be added again. And
        of two equal sources behind one address, one may lag: its older values must not look like resets.
        """
        kept = {
            name: known
            for name, known in before.series.items()
            if name not in self.series or self.series[name].at <= known.at
        }
        return Reading(max(self.at, before.at), {**self.series, **kept})

    def totals(self) -> Counters:
        """Return the sum of all series: what all known processes have counted since they began."""
        counters = [series.counters for series in self.series.values()]
        buckets: Counter[float] = Counter()
        for one in counters:
            buckets.update(one.latency_buckets)
        return Counters(
            requests=sum(one.requests for one in counters),
            errors=sum(one.errors for one in counters),
            latency_buckets=dict(buckets),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, for a task that must go on after its own restart."""
        return {
            "at": self.at,
            "series": {
                name: {"at": series.at, **series.counters.to_dict()} for name, series in self.series.items()
            },
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Reading:
        """Rebuild a reading from `to_dict`'s form."""
        series = {
            name: SeriesReading(float(one["at"]), Counters.from_dict(one))
            for name, one in dict(value["series"]).items()
        }
        return cls(float(value["at"]), series)


def reading_delta(before: Reading, after: Reading) -> Sample:
    """Return what happened between two readings of one revision.

    Each series by itself, by the rules of `counters_delta`: one that went down was reset and counts from 0;
    one that is new began since and counts from 0; one that vanished, or shows nothing newer, adds nothing.
    Over more than two readings let each remember the one before (`after = after.remembering(before)`).
    """
    requests = errors = 0
    buckets: Counter[float] = Counter()
    for name, now in after.series.items():
        known = before.series.get(name)
        if known is not None and now.at <= known.at:
            continue
        growth = _growth(_NOTHING if known is None else known.counters, now.counters)
        requests += growth.requests
        errors += growth.errors
        buckets.update(growth.latency_buckets)
    # Requests and errors may be series of their own; see counters_delta for why errors may be ahead.
    return Sample(requests=max(requests, errors), errors=errors, latency_buckets=dict(buckets))


def window_between(
    before: Mapping[str, Reading], after: Mapping[str, Reading], *, stable: str, candidate: str
) -> Window | None:
    """Return the window between two readings of both revisions; None while there is no new data of both.

    A source that is asked more often than it scrapes gives the same data again. That is no window without
    requests: ask again. `seconds` is how far the moment moved up to which both revisions are known, so that
    the windows of a canary add up to its length.

    :raises MetricsUnavailableError: a reading lacks a revision.
    """
    pairs = [(_of(before, name), _of(after, name)) for name in (stable, candidate)]
    if any(later.at <= earlier.at for earlier, later in pairs):
        return None
    return Window(
        seconds=min(later.at for _, later in pairs) - min(earlier.at for earlier, _ in pairs),
        stable=reading_delta(*pairs[0]),
        candidate=reading_delta(*pairs[1]),
    )


def _of(readings: Mapping[str, Reading], revision: str) -> Reading:
    if revision not in readings:
        raise MetricsUnavailableError(
            f"a reading lacks the revision {revision!r}",
            expected="a reading of both revisions",
            found=", ".join(sorted(readings)) or "none",
        )
    return readings[revision]


def _growth(before: Counters, after: Counters) -> Counters:
    """Return what one process counted since `before`, or since it was started anew."""
    if _was_reset(before, after):
        before = _NOTHING
    return Counters(
        requests=int(after.requests) - int(before.requests),
        errors=int(after.errors) - int(before.errors),
        latency_buckets={
            bound: int(count) - int(before.latency_buckets.get(bound, 0))
            for bound, count in after.latency_buckets.items()
        },
    )


def _was_reset(before: Counters, after: Counters) -> bool:
    if after.requests < before.requests or after.errors < before.errors:
        return True
    return any(after.latency_buckets.get(bound, 0) < count for bound, count in before.latency_buckets.items())


def _is_number(value: object) -> bool:
    """Return whether the value is a number that a float can hold, perhaps infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def _count(name: str, value: Any) -> int:
    if not _is_number(value) or math.isinf(value) or value < 0:
        raise _unusable(name, "a number of requests, zero or more", _shown(value))
    count = int(value)
    if count != value:
        raise _unusable(name, "a whole number of requests", repr(value))
    return int(count)


def _moment(what: str, value: Any) -> None:
    if not _is_number(value) or math.isinf(value) or value < 0:
        raise _unusable(f"the moment of {what}", "unix seconds", _shown(value))


def _bound(value: Any) -> float:
    if not _is_number(value) or value <= 0:
        raise _unusable("a latency bucket's upper bound", "milliseconds above 0, or inf", _shown(value))
    return float(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LIMIT else f"{text[:_SHOWN_LIMIT]}…"


def _bound_text(bound: float) -> str:
    return "inf" if math.isinf(bound) else repr(float(bound))


def _unusable(what: str, expected: str, found: str) -> MetricsUnavailableError:
    return MetricsUnavailableError(
        f"the metrics source gave a value that cannot be used for {what}",
        expected=expected,
        found=found,
        remedy="look at the query or the endpoint that the value comes from",
    )


# What a process that has just been started has counted.
_NOTHING = Counters(requests=0, errors=0)
