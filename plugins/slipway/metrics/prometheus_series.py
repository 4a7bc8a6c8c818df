"""A revision's reading, made of the raw samples of its series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slipway.metrics.prometheus_answer import (
    RawSeries,
    Samples,
    labels_text,
    parse_answer,
    parse_series,
    shortened,
    unusable_answer,
    whole_count,
)
from slipway.metrics.prometheus_flow import FlowData
from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.needed_labels import code_labels, lacks_status, unseen_errors
from slipway_core.metrics.queries import LatencyUnit, QuerySet
from slipway_core.metrics.samples import Counters, Reading, SeriesReading

__all__ = ["RawSeries", "RevisionData", "parse_answer", "parse_series", "shared_series"]

# Envoy shows its histograms later than its counters: by its flush, of 5 s by default, and a scrape.
LATENCY_GRACE_S = 15.0
_IN_MS: Mapping[LatencyUnit, float] = {"ms": 1.0, "s": 1000.0}
# By these the copies of one series differ where several equal servers scrape one process.
REPLICA_LABELS = frozenset(
    {"prometheus_replica", "__replica__", "replica", "thanos_replica", "receive_replica"}
)


@dataclass(frozen=True)
class RevisionData:
    """The series of one revision, as they were at `now` (unix seconds of the server's own clock).

    `latency` and `watched` are None where they were not asked for.
    """

    revision: str
    source: str
    now: float
    staleness_s: float
    requests: Sequence[RawSeries]
    errors: Sequence[RawSeries]
    latency: Sequence[RawSeries] | None = None
    latency_unit: LatencyUnit = "ms"
    queries: QuerySet | None = None
    """What was asked, filled in; None: whether the series can show errors is not looked at."""
    flow: FlowData | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether any counter of requests has a sample that is not stale."""
        return any(self._is_fresh(series) for series in self.requests)

    def reading(self, watched: Sequence[RawSeries] | None = None) -> Reading:
        """The reading that the series make.

        :param watched: what says that the source sees the revision, asked for where no counter is fresh.
        :raises MetricsUnavailableError: series are lacking or stale, or have values that are no counts.
        """
        moments = [series.newest for series in self.requests]
        if not self.is_fresh:
            if watched is None:
                raise self._lacking("requests", self.requests)
            alive = [one for one in watched if self._is_fresh(one) and one.samples[one.newest] > 0]
            if not alive:
                raise self._lacking("requests", [*self.requests, *watched])
            moments += [series.newest for series in alive]
        self._require_latency()
        self._require_visible_errors()
        by_code = frozenset[str]()
        if self.queries is not None:
            by_code = code_labels(self.queries.errors, self.queries.requests)
        counted = _Counting(self.source, by_code)
        counted.add("requests", self.requests)
        counted.add("errors", self.errors)
        for series in self.latency or ():
            counted.add(self._bound(series), [series])
        found = counted.series()
        return Reading(
            max(moments), found if self.flow is None else self.flow.laid_over(found, self.requests)
        )

    def _require_latency(self) -> None:
        """A histogram must be there, and fresh, as soon as requests have been counted for a while."""
        if self.latency is None or not self.is_fresh or any(map(self._is_fresh, self.latency)):
            return
        if any(
            value > 0 and at <= self.now - LATENCY_GRACE_S
            for series in self.requests
            for at, value in series.samples.items()
        ):
            raise self._lacking("latency", self.latency)

    def _require_visible_errors(self) -> None:
        """Something in the series must distinguish errors from requests."""
        if self.queries is None:
            return
        counted = [(one.labels, any(value > 0 for value in one.samples.values())) for one in self.requests]
        asked = self.queries.requests, self.queries.errors
        hidden = unseen_errors(*asked, counted, (one.labels for one in self.errors))
        hidden = hidden or lacks_status((one.labels for one in self.requests), self.queries.status_label)
        if hidden is not None:
            raise MetricsUnavailableError(
                f"{self.source} cannot show errors of the revision {self.revision!r}",
                expected="series that distinguish errors from other requests",
                found=shortened(hidden),
                remedy="keep the label when you relabel or aggregate, or use other series "
                "(`rollout.metrics.overrides`); a counter of errors must exist from the start, with 0",
            )

    def _is_fresh(self, series: RawSeries) -> bool:
        return series.newest >= self.now - self.staleness_s

    def _bound(self, series: RawSeries) -> float:
        """The upper bound in ms of a bucket's series."""
        try:
            # Rounded: 0.07 s are 70 ms, not 70.00000000000001.
            return round(float(series.labels["le"]) * _IN_MS[self.latency_unit], 6)
        except (KeyError, ValueError):
            raise unusable_answer(self.source, f"a bucket without a bound: {shortened(series.key)}") from None

    def _lacking(self, kind: str, series: Iterable[RawSeries]) -> MetricsUnavailableError:
        newest = max((one.newest for one in series), default=None)
        found = "no such series" if newest is None else f"the newest is {self.now - newest:.1f} s old"
        return MetricsUnavailableError(
            f"{self.source} has no data on the {kind} of the revision {self.revision!r}",
            expected=f"samples of the last {self.staleness_s:g} s",
            found=found,
            remedy="check that its targets are scraped, and the queries "
            f"(python -m slipway_core.metrics --revision {self.revision})",
        )


class _Counting:
    """Puts the parts of each series together: requests, errors and buckets, at each moment that all have.

    :param by_code: labels by which the series of one process differ: where no target is named, the others name it.
    """

    def __init__(self, source: str, by_code: frozenset[str]) -> None:
        self._source = source
        self._by_code = by_code
        self._parts: dict[str, dict[str | float, Samples]] = {}
        self._labels: dict[str, Mapping[str, str]] = {}

    def add(self, part: str | float, found: Iterable[RawSeries]) -> None:
        for series in found:
            parts = self._parts.setdefault(series.key, {})
            self._labels.setdefault(series.key, series.labels)
            known = parts.get(part, {})
            # A bound may be written in two ways, one after the other: 10 and 10.0.
            if known and (isinstance(part, str) or known.keys() & series.samples.keys()):
                raise unusable_answer(self._source, f"one series for two queries: {shortened(series.key)}")
            parts[part] = {**known, **series.samples}

    def series(self) -> dict[str, SeriesReading]:
        self._refuse_copies()
        return {key: self._series(key, parts) for key, parts in self._parts.items()}

    def _refuse_copies(self) -> None:
        """Two servers' samples of one process, which nobody has merged, would count each request twice."""
        seen: dict[str, str] = {}
        for key, labels in self._labels.items():
            bare = labels_text(
                {label: value for label, value in labels.items() if label not in REPLICA_LABELS}
            )
            if seen.setdefault(bare, key) != key:
                raise unusable_answer(
                    self._source,
                    f"two copies of one series: {shortened(seen[bare])} and {shortened(key)}",
                    "the samples of only one of several replicas (turn deduplication on)",
                )

    def _process(self, labels: Mapping[str, str]) -> str:
        if "instance" in labels:
            return labels_text(
                {label: value for label, value in labels.items() if label in ("job", "instance")}
            )
        apart = {"__name__", "le", *self._by_code}
        return labels_text({label: value for label, value in labels.items() if label not in apart}) or "all"

    def _series(self, key: str, parts: Mapping[str | float, Samples]) -> SeriesReading:
        # A scrape may come in between two queries, or one part of it after another.
        shared = set[float].intersection(*(set(samples) for samples in parts.values()))
        if not shared:
            raise unusable_answer(
                self._source, f"parts of one series without a common time: {shortened(key)}"
            )
        moments = [(at, self._counters(key, parts, at)) for at in sorted(shared)]
        return SeriesReading(*moments[-1], self._process(self._labels[key]), tuple(moments[:-1]))

    def _counters(self, key: str, parts: Mapping[str | float, Samples], at: float) -> Counters:
        values = {part: whole_count(samples[at], key, self._source) for part, samples in parts.items()}
        bounds = sorted(part for part in values if isinstance(part, float))
        if bounds and bounds[-1] != math.inf:
            raise unusable_answer(self._source, f'a histogram without its bucket le="+Inf": {shortened(key)}')
        buckets, below = {}, 0
        # Nothing takes no time: what lies at 0 belongs to the next bucket.
        for bound in (one for one in bounds if one > 0):
            buckets[bound], below = values[bound] - below, values[bound]
        return Counters(values.get("requests", 0), values.get("errors", 0), buckets)


def shared_series(readings: Mapping[str, Reading]) -> str | None:
    """A series that counts for more than one revision, if there is one: then nothing tells them apart."""
    seen: set[str] = set()
    for reading in readings.values():
        shared = seen & reading.series.keys()
        if shared:
            return min(shared)
        seen |= reading.series.keys()
    return None
