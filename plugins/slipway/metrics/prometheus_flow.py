"""Requests that began and were never answered, from a router's series in Prometheus."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.metrics.prometheus_answer import RawSeries, labels_text, whole_count
from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.queries import QuerySet
from slipway_core.metrics.request_flow import RequestFlow
from slipway_core.metrics.samples import Counters, SeriesReading

Labels = Mapping[str, str]


@dataclass(frozen=True)
class FlowData:
    """The series of what began, what was tried again and what is active, of one revision.

    The series of one process share all labels but the name, and those of its answers have them too, with a code beside.
    So what began and what was answered are compared process by process.

    :param limit_s: what is active for longer is overdue, where it has an age.
    """

    begun: Sequence[RawSeries]
    retried: Sequence[RawSeries]
    active: Sequence[RawSeries]
    queries: QuerySet
    limit_s: float
    source: str

    def laid_over(
        self, found: Mapping[str, SeriesReading], requests: Sequence[RawSeries]
    ) -> dict[str, SeriesReading]:
        """Return the series of a reading, those of the answers of a process as one, with what began there.

        :raises MetricsUnavailableError: requests were answered, and nothing shows that they began.
        """
        laid, left = dict(found), {one.key: one for one in requests}
        for labels in self._processes():
            mine = [one for one in left.values() if labels.items() <= one.labels.items()]
            merged = self._process(labels, [found[one.key] for one in mine])
            if merged is None:
                continue
            laid[f"flow,{labels_text(labels)}"] = merged
            for one in mine:
                del left[one.key], laid[one.key]
        hidden = [one.key for one in left.values() if found[one.key].counters.requests]
        if hidden:
            raise MetricsUnavailableError(
                f"{self.source} does not show which requests began",
                expected="counters of begun requests and the gauge of active ones, for each process that answered",
                found=f"none for {hidden[0][:200]}",
                remedy="keep these series, or turn them off (`rollout.metrics.overrides: {begun: [], retried: [], "
                "active: []}`); then requests that are never answered are not seen",
            )
        return laid

    def _processes(self) -> list[dict[str, str]]:
        found = (_bare(one.labels) for one in self.active)
        return list({labels_text(one): one for one in found}.values())

    def _process(self, labels: Labels, answers: Sequence[SeriesReading]) -> SeriesReading | None:
        """Return one process's answers with its flow, at each moment at which both were scraped."""
        begun, retried, active = (
            [one.samples for one in kind if _bare(one.labels) == labels]
            for kind in (self.begun, self.retried, self.active)
        )
        if not begun:
            return None
        shared = set[float].intersection(*(set(one) for one in (*begun, *retried, *active)))
        is_timed = not self._may_stream(labels)
        shown = [dict(one.moments) for one in answers]
        parts: list[tuple[float, Counters]] = []
        for at in sorted(shared):
            sums = [
                sum(whole_count(one[at], labels_text(labels), self.source) for one in kind)
                for kind in (begun, retried, active)
            ]
            then = [one.get(at, _NONE) for one in shown]
            counts = sum(one.requests for one in then), sum(one.errors for one in then)
            counters = Counters(*counts, flow=self._flow(sums, counts[0], is_timed=is_timed))
            if parts and _came_between(
                parts[-1][1], counters, is_answered=any(one is not _NONE for one in then)
            ):
                continue
            parts.append((at, counters))
        if not parts:
            return None
        process = answers[0].process if answers else labels_text(labels)
        return SeriesReading(*parts[-1], process, tuple(parts[:-1]))

    def _flow(self, sums: Sequence[int], answered: int, *, is_timed: bool) -> RequestFlow:
        attempts, retried, active = sums
        begun = max(0, attempts - retried)
        return RequestFlow(
            begun=begun,
            active=active,
            lost=max(0, begun - answered - active),
            timed_begun=begun if is_timed else 0,
            timed_active=active if is_timed else 0,
            limit_s=self.limit_s,
        )

    def _may_stream(self, labels: Labels) -> bool:
        ageless = self.queries.ageless
        return ageless is not None and re.fullmatch(ageless[1], labels.get(ageless[0], "")) is not None


def _bare(labels: Labels) -> dict[str, str]:
    return {label: value for label, value in labels.items() if label != "__name__"}


def _came_between(before: Counters, counters: Counters, *, is_answered: bool) -> bool:
    """Return whether a scrape came in between two queries: what began is seen, and the answers are not.

    All of one process is scraped at once. Where it had answered and shows no answers, it was started anew, and then
    less began than before.
    """
    if is_answered or not before.requests or before.flow is None or counters.flow is None:
        return False
    return counters.flow.begun >= before.flow.begun


_NONE = Counters(0, 0)
