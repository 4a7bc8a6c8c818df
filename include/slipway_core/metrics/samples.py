"""What the judge looks at: counts of requests, errors and latencies of both revisions in one window of time.

A metrics source reads monotonic counters, series by series: `Reading`. Two readings make a `Sample`, two
samples a `Window`. A reading that failed raises; it never becomes a sample without requests, because a source
that does not answer says nothing about the model. The samples of a window come from one source: users' requests,
golden requests that were replayed to both revisions, or golden requests that were streamed to both. Never from two of
them: another mix of requests has other latencies.

The difference is taken here, series by series, and not by PromQL's rate() or increase(). Those extrapolate to
the edges of their range (so counts are no longer whole), and lose what a new series counted before its second
sample, which for a counter by status code is the first error of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal, get_args

from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.counters import Counters, Growth, growth
from slipway_core.metrics.histograms import added
from slipway_core.metrics.series_fold import Beginning, since_beginning, since_known
from slipway_core.metrics.values import (
    buckets_from_dict,
    buckets_to_dict,
    check_moment,
    checked_buckets,
    checked_count,
    unusable,
)

__all__ = [
    "Counters",
    "Reading",
    "Sample",
    "SeriesReading",
    "Source",
    "Window",
    "counters_delta",
    "reading_delta",
    "window_between",
]

Source = Literal["users", "replay", "stream"]


@dataclass(frozen=True)
class Sample:
    """One revision in one window.

    :param latency_buckets: maps a bucket's upper bound in ms (`inf` last) to the requests that fell *in* it (not
        cumulative); empty if the source knows no latencies.
    :param unanswered: of `errors`: requests that began and never got an answer. They are in `requests` too, though they
        have no latency.
    :param begun: requests that began in the window; None: the source cannot tell. One that began before may end in it.
    :param active: requests that have begun and are not over at the window's end; None: the source cannot tell.
    :raises MetricsUnavailableError: a count is NaN, negative or impossible.
    """

    requests: int
    errors: int
    latency_buckets: Mapping[float, int] = field(default_factory=dict)
    unanswered: int = 0
    begun: int | None = None
    active: int | None = None

    def __post_init__(self) -> None:
        requests = checked_count("requests", self.requests)
        errors = checked_count("errors", self.errors)
        if errors > requests:
            raise unusable("a sample", "at most as many errors as requests", f"{errors} of {requests}")
        unanswered = checked_count("unanswered requests", self.unanswered)
        if unanswered > errors:
            raise unusable(
                "a sample", "at most as many unanswered requests as errors", f"{unanswered} of {errors}"
            )
        object.__setattr__(self, "requests", requests)
        object.__setattr__(self, "errors", errors)
        object.__setattr__(self, "latency_buckets", checked_buckets(self.latency_buckets))
        object.__setattr__(self, "unanswered", unanswered)
        for name in ("begun", "active"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_count(f"{name} requests", getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form; the last bucket's bound is the text `inf`; what is not known is left out."""
        optional = {"unanswered": self.unanswered or None, "begun": self.begun, "active": self.active}
        return {
            "requests": self.requests,
            "errors": self.errors,
            "latency_buckets": buckets_to_dict(self.latency_buckets),
            **{name: count for name, count in optional.items() if count is not None},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Sample:
        """Rebuild a sample from `to_dict`'s form; what it lacks the source could not tell."""
        return cls(
            requests=value["requests"],
            errors=value["errors"],
            latency_buckets=buckets_from_dict(value.get("latency_buckets")),
            unanswered=value.get("unanswered", 0),
            begun=value.get("begun"),
            active=value.get("active"),
        )


@dataclass(frozen=True)
class Window:
    """Both revisions over the same time: what hits both alike then counts against neither.

    :param seconds: the length of the window.
    :param source: whose requests all of them were.
    :param disruption: how the cluster took pods of the candidate away in this window; "" if it did not.
    :raises MetricsUnavailableError: a window cannot have this length or source.
    """

    seconds: float
    stable: Sample
    candidate: Sample
    source: Source = "users"
    disruption: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.seconds) or self.seconds < 0:
            raise unusable("a window", "a length in seconds, zero or more", repr(self.seconds))
        if self.source not in get_args(Source):
            raise unusable("a window's source", " or ".join(get_args(Source)), repr(self.source))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, enough to judge the window again."""
        return {
            "source": self.source,
            "seconds": self.seconds,
            "stable": self.stable.to_dict(),
            "candidate": self.candidate.to_dict(),
            **({"disruption": self.disruption} if self.disruption else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Window:
        """Rebuild a window from `to_dict`'s form; one without a source was recorded when all were users'."""
        return cls(
            seconds=float(value["seconds"]),
            stable=Sample.from_dict(value["stable"]),
            candidate=Sample.from_dict(value["candidate"]),
            source=value.get("source", "users"),
            disruption=str(value.get("disruption") or ""),
        )


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
    return _sample(growth(before, after))


@dataclass(frozen=True)
class SeriesReading:
    """What is known of one series: the newest count, and when it was taken (unix seconds).

    :param process: what counted it, shared by the series of one process; "": not known.
    :param earlier: the samples before the newest that the source showed with it; they are not saved.
    """

    at: float
    counters: Counters
    process: str = ""
    earlier: tuple[tuple[float, Counters], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_moment("a series", self.at)
        object.__setattr__(self, "counters", self.counters.at(self.at))

    def after(self, before: SeriesReading | None) -> SeriesReading:
        """Return it with what an earlier reading of the series knew of requests that are not over."""
        if before is None:
            return self
        known = before.counters
        for at, counters in self.moments:
            known = counters.at(at, known) if at > before.at else known
        return replace(self, counters=known)

    @property
    def moments(self) -> tuple[tuple[float, Counters], ...]:
        """All samples that the source showed, in the order of their moments."""
        return (*self.earlier, (self.at, self.counters))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, without the earlier samples."""
        process = {"process": self.process} if self.process else {}
        return {"at": self.at, **process, **self.counters.to_dict()}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SeriesReading:
        """Rebuild it from `to_dict`'s form."""
        return cls(float(value["at"]), Counters.from_dict(value), str(value.get("process", "")))


@dataclass(frozen=True)
class Reading:
    """What a source showed of one revision.

    A reading without series is of a revision that is watched and has not had a request yet.

    A series that claims to be newer than the reading is as new as that: else it would look known forever, and nothing
    of it would count.

    :param at: the moment of the newest data (unix seconds), as the source dates it, not the moment of the query.
    :param series: by name, each one process's count of one thing.
    """

    at: float
    series: Mapping[str, SeriesReading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_moment("a reading", self.at)
        if any(one.at > self.at for one in self.series.values()):
            held = {name: replace(one, at=min(one.at, self.at)) for name, one in self.series.items()}
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
        newer = {name: one.after(before.series.get(name)) for name, one in self.series.items()}
        return Reading(max(self.at, before.at), {**newer, **kept})

    def totals(self) -> Counters:
        """Return the sum of all series: what all known processes have counted since they began."""
        counters = [series.counters for series in self.series.values()]
        return Counters(
            requests=sum(one.requests for one in counters),
            errors=sum(one.errors for one in counters),
            latency_buckets=reduce(added, (one.latency_buckets for one in counters), {}),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, for a task that must go on after its own restart."""
        return {
            "at": self.at,
            "series": {name: series.to_dict() for name, series in self.series.items()},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Reading:
        """Rebuild a reading from `to_dict`'s form."""
        series = {name: SeriesReading.from_dict(one) for name, one in dict(value["series"]).items()}
        return cls(float(value["at"]), series)


def reading_delta(before: Reading, after: Reading) -> Sample:
    """Return what happened between two readings of one revision.

    Each series by itself, by the rules of `counters_delta`, and sample by sample where the source showed several: one
    that went down was reset and counts from 0; one that is new began since and counts from 0, unless it cannot have
    counted so much since (`series_fold.py`); one that vanished, or shows nothing newer, adds nothing. Over more than
    two readings let each remember the one before (`after = after.remembering(before)`).
    """
    known = [
        since_known(before.series[name].at, before.series[name].counters, now.moments)
        for name, now in after.series.items()
        if name in before.series and now.at > before.series[name].at
    ]
    others = sum(one.requests + sum(one.latency_buckets.values()) for one in known)
    processes = {"", *(one.process for one in before.series.values())}
    new = [
        since_beginning(now.moments, Beginning(before.at, others, now.process not in processes))
        for name, now in after.series.items()
        if name not in before.series
    ]
    return _sample(reduce(Growth.plus, [*known, *new], Growth()))


def _sample(grown: Growth) -> Sample:
    # Requests and errors may be series of their own; see counters_delta for why errors may be ahead.
    return Sample(
        requests=max(grown.requests, grown.errors),
        errors=grown.errors,
        latency_buckets=grown.latency_buckets,
        unanswered=grown.unanswered,
        begun=grown.begun,
        active=grown.active,
    )


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
