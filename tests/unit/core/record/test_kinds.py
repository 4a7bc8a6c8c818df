"""The kinds of events: what is kept, what is left out, and what is refused by name."""

from __future__ import annotations

import typing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from slipway_core.errors import SlipwayError
from slipway_core.record.events import Event, PendingEvent, RecordError
from slipway_core.record.kinds import (
    KINDS,
    Approved,
    EventData,
    Expected,
    KnownEvent,
    Promoted,
    ReleaseStarted,
    RolledBack,
    StageFinished,
    StepFinished,
    UnknownEvent,
    WeightObserved,
    WindowJudged,
    parse_event_data,
)
from slipway_core.record.requirements import Requirements

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def event(data: EventData) -> Event:
    return Event(7, AT, "digits-3", "digits", 3, data)


def document(kind: str, **data: Any) -> dict[str, Any]:
    """Return an event as it lies in S3."""
    return {**event(UnknownEvent(kind, data)).to_document()}


def test_every_kind_says_what_its_fields_must_hold() -> None:
    """An error about any field can say what was expected."""
    kinds = {one.kind: one for one in KnownEvent.__subclasses__()}
    assert set(kinds) == set(KINDS)
    for kind in kinds.values():
        hints = typing.get_type_hints(kind, include_extras=True)
        for name in kind.model_fields:
            assert any(isinstance(one, Expected) for one in hints[name].__metadata__), (kind, name)


@pytest.mark.parametrize(
    ("data", "written"),
    [
        (ReleaseStarted(), {"stable_storage_uri": None}),
        (
            ReleaseStarted(required=Requirements(weights=(5,)), triggered_by="alice"),
            {
                "stable_storage_uri": None,
                "required": {
                    "gates": ["validate", "benchmark"],
                    "weights": [5],
                    "approvals": [],
                    "by_other": False,
                },
                "triggered_by": "alice",
            },
        ),
        (
            StageFinished(stage="convert", outcome="passed"),
            {"stage": "convert", "outcome": "passed", "reason": None},
        ),
        (WeightObserved(weight=0, traffic={}), {"weight": 0, "traffic": {}}),
        (
            WeightObserved(weight=0, traffic={}, candidate_url=""),
            {"weight": 0, "traffic": {}, "candidate_url": ""},
        ),
        (
            Approved(before="canary", by="bob", manifest_sha256="ab"),
            {"before": "canary", "by": "bob", "manifest_sha256": "ab", "reason": None},
        ),
        (Promoted(storage_uri="s3://b/3"), {"storage_uri": "s3://b/3"}),
    ],
)
def test_what_is_not_known_is_null_or_left_out(data: EventData, written: dict[str, Any]) -> None:
    """Fields that every version has written are null; those that came later are not written at all."""
    assert event(data).to_document()["data"] == written


def test_times_within_an_event_are_written_in_utc() -> None:
    """A time in another zone is the same time, and reads back as it was written."""
    there = AT.astimezone(timezone(timedelta(hours=5)))
    data = RolledBack(
        stable_storage_uri=None,
        candidate_requests=1,
        candidate_errors=0,
        first_bad_at=there,
        weight_0_at=None,
    )
    read = Event.from_bytes(event(data).to_bytes())
    assert read.to_document()["data"]["first_bad_at"] == "2026-11-20T12:00:00+00:00"
    assert read == event(data)


def test_a_rollback_without_a_look_afterwards_is_written_as_it_always_was() -> None:
    """What was counted after weight 0 is left out where nobody looked, and read where it was written."""
    old = RolledBack(stable_storage_uri=None, candidate_requests=1, candidate_errors=0)
    assert not [key for key in old.to_document() if key.endswith("_after_weight_0")]
    looked = old.model_copy(update={"requests_after_weight_0": 3, "seconds_after_weight_0": 2.5})
    read = Event.from_bytes(event(looked).to_bytes())
    assert read == event(looked)
    assert read.to_document()["data"]["requests_after_weight_0"] == 3


def test_fields_of_a_later_version_are_kept() -> None:
    """They come back when the event is written again, and two events that differ in them differ."""
    later = Event.from_document(document("stage_started", stage="canary", region="eu"))
    assert later.to_document()["data"] == {"stage": "canary", "region": "eu"}
    assert later != Event.from_document(document("stage_started", stage="canary", region="us"))


def test_a_kind_of_a_later_version_is_kept() -> None:
    """Nobody here knows what it means; it keeps its number, its kind and its data."""
    later = Event.from_document(document("energy_measured", joules=[1.5, None]))
    assert (later.kind, later.data) == (
        "energy_measured",
        UnknownEvent("energy_measured", {"joules": [1.5, None]}),
    )
    assert Event.from_bytes(later.to_bytes()) == later


@pytest.mark.parametrize(
    ("kind", "data", "field", "expected"),
    [
        ("stage_started", {}, "stage", "text"),
        ("weight_observed", {"weight": 101, "traffic": {}}, "weight", "a whole number from 0 to 100"),
        ("weight_observed", {"weight": 5.0, "traffic": {}}, "weight", "a whole number from 0 to 100"),
        ("weight_observed", {"traffic": {"r": "all"}}, "traffic", "percents by revision"),
        ("window_judged", {"verdict": []}, "verdict", "an object"),
        ("window_judged", {"candidate_errors": True}, "candidate_errors", "a whole number"),
        ("step_finished", {"seconds": 10**400}, "seconds", "a finite number"),
        ("step_finished", {"seconds": False}, "seconds", "a finite number"),
        ("rolled_back", {"weight_0_at": "yesterday"}, "weight_0_at", "a time (ISO 8601)"),
        ("release_started", {"required": {"gates": 3}}, "required", "what a release must prove"),
        (
            "release_started",
            {"required": {"gates": [], "weights": [], "approvals": [[]], "by_other": False}},
            "required",
            "what a release must prove",
        ),
    ],
)
def test_a_field_that_cannot_be_right_is_refused_by_name(
    kind: str, data: dict[str, Any], field: str, expected: str
) -> None:
    """A field that is wrong is named before those that are missing, with what it must hold."""
    with pytest.raises(RecordError, match=rf"000007-{kind}\.json cannot be right: `{field}`") as refused:
        Event.from_document(document(kind, **data))
    assert refused.value.expected == expected


@pytest.mark.parametrize("data", [{"seconds": "long"}, {"weight": 101}, {"verdict": None}])
def test_a_writer_cannot_write_what_nobody_could_read(data: dict[str, Any]) -> None:
    """What a field must hold is asked when the event is made."""
    right: dict[str, Any] = {"weight": 5, "verdict": "pass", "reason": "", "seconds": 1.0}
    counts = {"candidate_requests": 1, "candidate_errors": 0}
    assert StepFinished(**right, **counts).seconds == 1.0
    with pytest.raises(ValidationError):
        StepFinished(**{**right, **data}, **counts)


def test_an_event_on_its_way_comes_back_as_it_was() -> None:
    """What a trigger has seen reaches the task by JSON."""
    data = WindowJudged(verdict={"status": "pass"}, candidate_requests=1, candidate_errors=0, first_bad_at=AT)
    assert PendingEvent.from_document(PendingEvent(AT, data).to_document()) == PendingEvent(AT, data)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"kind": [], "at": "2026-11-20T12:00:00Z", "data": {}},
        {"kind": "x", "at": "2026-11-20T12:00:00", "data": {}},
        {"kind": "promoted", "at": "2026-11-20T12:00:00Z", "data": {}},
    ],
)
def test_an_event_on_its_way_that_is_none_is_told(told: dict[str, Any]) -> None:
    """A journal that somebody has changed ends in an error of the project."""
    with pytest.raises(SlipwayError):
        PendingEvent.from_document(told)


def test_an_event_belongs_under_its_key() -> None:
    """Under another key it is refused, also where its data would be wrong."""
    content = event(UnknownEvent("promoted", {})).to_bytes()
    with pytest.raises(RecordError, match=r"^records/digits/3/000008-promoted\.json holds another"):
        Event.stored(content, "records/digits/3/000008-promoted.json")
    with pytest.raises(RecordError, match="`storage_uri`"):
        Event.stored(content, "records/digits/3/000007-promoted.json")
    assert parse_event_data("promoted", {"storage_uri": "s3://b/3"}) == Promoted(storage_uri="s3://b/3")
