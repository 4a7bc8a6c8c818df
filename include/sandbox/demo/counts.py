"""What the traffic client wrote, read back: how many answers, by whom, and whose fault a failure was.

The client appends JSON lines: `{"kind": "failure", …}` for each failed request, and every second a
`{"kind": "snapshot", …}` of all counts since it began counting. A line cut short by a killed client is
left out; everything before it counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Failure:
    """One request without a good answer. `at`: seconds since the epoch, when the answer came.

    `revision` is None where no revision was reached: the router itself answered, or nobody did.
    """

    at: float
    protocol: str
    revision: str | None
    error: str


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
        """Whether the version was a candidate at that moment."""
        return self.begin <= at and (self.end is None or at <= self.end)


@dataclass(frozen=True)
class Traffic:
    """Everything the client wrote: the snapshots in order of time, and the failures."""

    snapshots: Sequence[Snapshot] = ()
    failures: Sequence[Failure] = field(default=())

    @property
    def last(self) -> Snapshot:
        """The newest counts; all zero where the client never counted anything."""
        return self.snapshots[-1] if self.snapshots else Snapshot(0.0, 0, 0, 0, {}, {}, {})

    @property
    def first_answer_at(self) -> float | None:
        """When the client began to count, in seconds since the epoch."""
        return self.snapshots[0].at if self.snapshots else None

    def failed_on(self, spans: Iterable[CandidateSpan]) -> dict[int | None, int]:
        """Failures by the candidate that caused them; None holds those that no candidate explains.

        A failure is a candidate's when it happened in the candidate's span and the revision that answered
        served that version, or never gave one good answer while no other candidate was under way. Where
        no revision answered, nobody's candidate is to blame, and it is under None. Behind a router that
        never names revisions the span alone decides.
        """
        known = self.last.versions
        under_way = list(spans)
        blame: Counter[int | None] = Counter()
        for failure in self.failures:
            candidates = {span.version for span in under_way if span.holds(failure.at)}
            blame[_candidate_behind(failure, candidates, known)] += 1
        return dict(blame)


def _candidate_behind(failure: Failure, candidates: set[int], known: Mapping[str, str]) -> int | None:
    only = next(iter(candidates)) if len(candidates) == 1 else None
    if not known:
        return only
    if failure.revision is None:
        return None
    served = known.get(failure.revision)
    if served is None:
        return only
    return int(served) if served.isdigit() and int(served) in candidates else None


def failure_line(failure: Failure) -> str:
    """The failure as the line that `read_traffic` understands."""
    return json.dumps({"kind": "failure", **asdict(failure)})


def snapshot_line(snapshot: Snapshot) -> str:
    """The snapshot as the line that `read_traffic` understands."""
    return json.dumps({"kind": "snapshot", **asdict(snapshot)})


def read_traffic(path: Path) -> Traffic:
    """Read what a client wrote to `path`; empty where it wrote nothing yet."""
    if not path.exists():
        return Traffic()
    snapshots, failures = [], []
    for line in path.read_text().splitlines():
        entry = _parsed(line)
        kind = entry.pop("kind", None)
        if kind == "snapshot":
            snapshots.append(Snapshot(**entry))
        elif kind == "failure":
            failures.append(Failure(**entry))
    return Traffic(snapshots, failures)


def _parsed(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
