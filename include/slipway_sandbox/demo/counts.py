"""What the clients of the demo were answered, counted: how many answers, by which version, and who failed a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slipway_sandbox.load.answers import Answer

_SNAPSHOT_S = 1.0


@dataclass(frozen=True)
class Snapshot:
    """All counts at one moment, `at` in seconds since the epoch.

    `answered_by` counts good answers by the model version that gave them, `wrong` those among them that
    named another digit than was drawn; `versions` says which version each revision was seen to serve.
    """

    at: float
    requests: int
    failed: int
    wrong: int
    by_protocol: Mapping[str, int]
    answered_by: Mapping[str, int]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class CandidateSpan:
    """A version was a candidate from `begin` to `end`, in seconds since the epoch; `end` None: for good."""

    version: int
    begin: float
    end: float | None

    def holds(self, at: float) -> bool:
        """Return whether the version was a candidate at that moment."""
        return self.begin <= at and (self.end is None or at <= self.end)


@dataclass(frozen=True)
class Traffic:
    """What clients were answered: the counts second after second, and the failed requests."""

    snapshots: Sequence[Snapshot] = ()
    failures: Sequence[Answer] = ()

    @property
    def last(self) -> Snapshot:
        """The newest counts; all zero where nothing was counted."""
        return self.snapshots[-1] if self.snapshots else Snapshot(0.0, 0, 0, 0, {}, {}, {})

    def failed_on(self, spans: Iterable[CandidateSpan]) -> dict[int | None, int]:
        """Return how many failures each candidate caused; None holds those that no candidate explains.

        A failure is a candidate's when it happened in the candidate's span and the revision that answered served
        that version, or never gave one good answer while no other candidate was under way. Where no revision
        answered, no candidate is to blame, and the failure is under None. Behind a router that never names revisions
        the span alone decides.
        """
        known = self.last.versions
        under_way = list(spans)
        blame: Counter[int | None] = Counter()
        for failure in self.failures:
            candidates = {span.version for span in under_way if span.holds(failure.received)}
            blame[_candidate_behind(failure, candidates, known)] += 1
        return dict(blame)


def _candidate_behind(failure: Answer, candidates: set[int], known: Mapping[str, str]) -> int | None:
    only = next(iter(candidates)) if len(candidates) == 1 else None
    if not known:
        return only
    if failure.revision is None:
        return None
    served = known.get(failure.revision)
    if served is None:
        return only
    return int(served) if served.isdigit() and int(served) in candidates else None


def count(answers: Iterable[Answer]) -> Traffic:
    """Count answers: a snapshot for each second from the first request on, and one for the last answer."""
    ordered = sorted(answers, key=lambda one: one.received)
    if not ordered:
        return Traffic()
    counts = _Counts()
    begin = min(one.sent for one in ordered)
    snapshots = [counts.at(begin)]
    for answer in ordered:
        while answer.received > (end := begin + len(snapshots) * _SNAPSHOT_S):
            snapshots.append(counts.at(end))
        counts.add(answer)
    snapshots.append(counts.at(ordered[-1].received))
    return Traffic(snapshots, [one for one in ordered if one.error is not None])


class _Counts:
    """The counts of the answers so far."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._answered_by: Counter[str] = Counter()
        self._versions: dict[str, str] = {}
        self._failed = 0
        self._wrong = 0

    def add(self, answer: Answer) -> None:
        self._requests[answer.protocol] += 1
        if answer.error is not None:
            self._failed += 1
            return
        version = answer.version or "unknown"
        self._answered_by[version] += 1
        self._wrong += answer.right is False
        if answer.revision is not None:
            self._versions[answer.revision] = version

    def at(self, moment: float) -> Snapshot:
        return Snapshot(
            at=moment,
            requests=self._requests.total(),
            failed=self._failed,
            wrong=self._wrong,
            by_protocol=dict(self._requests),
            answered_by=dict(self._answered_by),
            versions=dict(self._versions),
        )
