"""The four chapters of the story as data, and whether each ended as it should."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Literal

from slipway_core.record.events import Event
from slipway_core.record.kinds import Promoted, RollbackStarted, WeightIntended
from slipway_core.record.state import ReleaseState
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.demo.counts import CandidateSpan, Traffic
from slipway_sandbox.load.clients import PROTOCOLS

MODEL = "digits"
LAST_GOOD_VERSION = 2
IN_STAGING = frozenset({"stage", "validate"})
"""The stages that may refuse version 4: on the staging server, before any user sees it."""

# What a client had asked before the weight went to 0 may be answered a moment later.
_IN_FLIGHT = timedelta(seconds=2)


@dataclass(frozen=True)
class Chapter:
    """One release: who starts it and how it must end, within `limit_s` seconds."""

    version: int
    title: str
    started_by: Literal["rest", "event"]
    outcome: Literal["promoted", "rolled_back", "refused"]
    limit_s: float = 300.0


CHAPTERS = (
    Chapter(1, "the first version goes live", "rest", "promoted"),
    Chapter(2, "a better one lands in S3, and it starts automatically", "event", "promoted"),
    Chapter(3, "good offline, bad for some live images", "rest", "rolled_back"),
    Chapter(4, "another signature", "rest", "refused"),
)


@dataclass(frozen=True)
class ChapterResult:
    """How a chapter went: its run in Airflow and what its record says; None if there is none."""

    chapter: Chapter
    run: DagRun | None
    events: Sequence[Event]
    state: ReleaseState | None

    @property
    def as_expected(self) -> bool:
        """Whether the release ended as the chapter says."""
        return self.state is not None and self.state.outcome == self.chapter.outcome


def problems(
    results: Sequence[ChapterResult], traffic: Traffic, protocols: Collection[str] = PROTOCOLS
) -> list[str]:
    """Return everything that went otherwise than the story says, each as a sentence; empty when all is well.

    :param protocols: over which the clients ask.
    """
    found = [problem for one in results for problem in _chapter_problems(one)]
    for chapter in CHAPTERS[len(results) :]:
        found.append(f"Version {chapter.version} was never released: the story stopped before it.")
    return found + _traffic_problems(results, traffic, protocols)


def candidate_spans(results: Iterable[ChapterResult]) -> list[CandidateSpan]:
    """Return when each version was a candidate: from its first share of the traffic to its promotion or its end."""
    spans = []
    for one in results:
        begin = next((event.at for event in one.events if isinstance(event.data, WeightIntended)), None)
        if begin is None or _was_first(one):
            continue
        end = next((event.at for event in one.events if isinstance(event.data, Promoted)), None)
        if end is None:
            end = max(event.at for event in one.events) + _IN_FLIGHT
        spans.append(CandidateSpan(one.chapter.version, begin.timestamp(), end.timestamp()))
    return spans


def failed_on_stable(results: Iterable[ChapterResult], traffic: Traffic) -> int:
    """Return failed requests that no candidate explains: those that users of the stable version saw."""
    return traffic.failed_on(candidate_spans(results)).get(None, 0)


def answering_at_the_end(traffic: Traffic) -> Mapping[str, int]:
    """Return good answers by version between the last two snapshots that differ."""
    for before, after in reversed(list(pairwise(traffic.snapshots))):
        answers = {
            version: count - before.answered_by.get(version, 0)
            for version, count in after.answered_by.items()
            if count > before.answered_by.get(version, 0)
        }
        if answers:
            return answers
    return {}


def _was_first(one: ChapterResult) -> bool:
    """Return whether it is the first version, which is the stable one from its first request on."""
    return one.chapter.version == CHAPTERS[0].version


def _chapter_problems(one: ChapterResult) -> list[str]:
    version, run = one.chapter.version, one.run
    if run is None:
        return [
            f"Version {version}: no run of model_release started automatically within {one.chapter.limit_s:.0f} s."
        ]
    if one.state is None:
        return [f"Version {version}: run {run.run_id} ended {run.state} and left no record."]
    if not one.as_expected:
        return [
            f"Version {version}: expected {one.chapter.outcome}, found {one.state.outcome}"
            f" (run {run.run_id} is {run.state}). {one.state.reason or ''}".rstrip()
        ]
    if one.chapter.outcome == "refused" and one.state.refused_by not in IN_STAGING:
        return [
            f"Version {version}: expected to be refused in staging, found refused by {one.state.refused_by}."
        ]
    if one.chapter.outcome == "rolled_back":
        return _rollback_problems(version, one)
    return []


def _rollback_problems(version: int, one: ChapterResult) -> list[str]:
    """Return what is wrong with a rollback: only the judge may have asked for it, because of answers that it saw."""
    begun = (event.data for event in one.events if isinstance(event.data, RollbackStarted))
    by = next((data.by for data in begun), "nobody")
    if by != "judge":
        reason = one.state.reason if one.state is not None else None
        return [
            f"Version {version}: expected a rollback by the judge, found one by {by}. {reason or ''}".rstrip()
        ]
    if one.state is None or not one.state.bad_requests_before_rollback:
        return [f"Version {version}: rolled back without a bad answer on record."]
    return []


def _traffic_problems(
    results: Sequence[ChapterResult], traffic: Traffic, protocols: Collection[str]
) -> list[str]:
    last = traffic.last
    found = [
        f"No request was sent over {protocol}."
        for protocol in protocols
        if not last.by_protocol.get(protocol)
    ]
    blame = traffic.failed_on(candidate_spans(results))
    if blame.get(None):
        found.append(f"{blame[None]} requests failed on the stable version; expected none.")
    for chapter in CHAPTERS:
        if chapter.outcome == "promoted" and blame.get(chapter.version):
            found.append(
                f"{blame[chapter.version]} requests failed on version {chapter.version}; expected none."
            )
        if chapter.outcome == "refused" and last.answered_by.get(str(chapter.version)):
            found.append(f"Version {chapter.version} answered clients; it should never have reached them.")
    ending = answering_at_the_end(traffic)
    if len(results) == len(CHAPTERS) and set(ending) != {str(LAST_GOOD_VERSION)}:
        names = ", ".join(sorted(ending)) or "nobody"
        found.append(f"Clients should end on version {LAST_GOOD_VERSION}; found {names} answering.")
    return found
