"""The record of a release: keys, events, what they fold to, and the evidence that is made of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

from benchmarks.fuzz import interesting, mutate
from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import Target
from slipway_core.record.events import Event, parse_event_key
from slipway_core.record.fold import fold
from slipway_core.record.kinds import (
    HoldOverridden,
    RaiseHeld,
    VersionRejected,
    VersionUnrejected,
)
from slipway_core.record.state import release_report
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_core.reports.canary.recording import recordings
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_sandbox.lab.simulation.recorded_canary import Story, Traffic


@cache
def stories() -> tuple[list[dict[str, Any]], ...]:
    """Return the events of releases that were promoted, rolled back and released again."""
    promoted = Story()
    promoted.canary(Traffic())
    promoted.promote()
    rolled_back = Story()
    rolled_back.canary(Traffic(candidate_errors=0.05, bad_after_s=150))
    rolled_back.restore()
    again = Story()
    again.canary(Traffic(seed=2), windows=6)
    again.release_again("manual__2")
    return tuple([event.to_document() for event in story.events] for story in (promoted, rolled_back, again))


_BY_PEOPLE = (
    VersionRejected(reason="wrong answers", by="bob"),
    VersionUnrejected(reason="it was the data", by="carol", rejection_seq=3),
    RaiseHeld(weight=5, hold="every model is frozen", until=datetime(2026, 12, 28, tzinfo=UTC)),
    HoldOverridden(by="carol", reason="urgent", hold="frozen", hold_sha256="a" * 64, set_by="bob"),
)


def _events() -> list[Any]:
    by_kind = {event["kind"]: event for story in stories() for event in story}
    first = stories()[0][0]
    by_people = [{**first, "kind": one.kind, "data": one.to_document()} for one in _BY_PEOPLE]
    return [*by_kind.values(), *by_people]


def _keys(rng: Random, seeds: Sequence[str]) -> str:
    key = mutate.some_bytes(rng, [key.encode() for key in seeds]).decode("utf-8", "replace")
    return (
        key.replace("000001", rng.choice(("0", "1" * 30, "9" * 5000, "٣" * 6))) if rng.random() < 0.3 else key
    )


def _record(rng: Random, _: Any) -> list[Any]:
    """A record in which some events are lost, doubled, in another order, or say something else."""
    events: list[Any] = copy.deepcopy(rng.choice(stories()))
    if len(events) > 40:
        start = rng.choice((0, rng.randrange(len(events) - 20)))
        events = events[start : start + 40]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(events))
        kind = rng.randrange(7)
        if kind == 6:
            one = rng.choice(_BY_PEOPLE)
            data = one.to_document() if rng.random() < 0.5 else mutate.tree(rng, [one.to_document()])
            events.insert(at, {**events[at], "kind": one.kind, "data": data})
        elif kind < 3:
            events[at]["data"] = mutate.tree(rng, [events[at]["data"]])
        elif kind == 3:
            events[at]["seq"] = rng.choice((1, 2, 10**10, 2**63, 10**30, events[-1]["seq"] + 1))
        elif kind == 4:
            events.insert(at, copy.deepcopy(events[at]))
        else:
            events[at][rng.choice(("kind", "release_id", "model", "version", "at"))] = interesting.value(rng)
    return events


def _read_event(content: bytes) -> None:
    event = Event.from_bytes(content)
    written = event.to_bytes()
    assert Event.from_bytes(written).to_bytes() == written


def _read_record(values: list[Any]) -> None:
    events = [Event.from_bytes(json.dumps(value).encode()) for value in values]
    state = fold(events)
    json.dumps(release_report(state))
    evidence = canary_evidence(events, AnalysisPolicy())
    document = evidence.to_document()
    json.dumps(document)
    assert CanaryEvidence.from_document(document) == evidence
    recordings(evidence)
    render_canary_html(evidence)


TARGETS = (
    Target(
        "record_event",
        lambda: [json_bytes(event) for event in _events()],
        lambda rng, _: mutated_json(rng, _events()),
        _read_event,
    ),
    Target(
        "record_key",
        lambda: ["records/digits/3/000001-release_started.json", "records/digits/3/1000000-promoted.json"],
        _keys,
        parse_event_key,
    ),
    Target("record", lambda: list(stories()), _record, _read_record, share=0.1),
)
