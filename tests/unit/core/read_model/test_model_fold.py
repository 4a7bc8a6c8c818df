"""The document of a model: what comes of all records at once is what comes of one after another."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.read_model.documents import FreezeLine, ModelDocument
from slipway_core.read_model.model_fold import (
    ModelContext,
    context_of,
    model_document,
    open_release,
    unreadable_line,
    updated,
    version_line,
)
from slipway_core.read_model.release_view import ReleaseView, release_view
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    Approved,
    EventData,
    RaiseHeld,
    ReleaseFinished,
    ReleaseStarted,
    StageFinished,
    StageStarted,
    UnknownEvent,
    VersionRejected,
    VersionUnrejected,
)
from slipway_core.record.requirements import Requirements
from tests.support.examples import examples
from tests.support.read_model.histories import at, begun, promoted, record_of, rolled_back, step_of, uri

MODEL = "digits"
RECORDED = Path(__file__).parents[3] / "support" / "record" / "recorded"
NOW = at(10_000)
FREEZE = FreezeLine(by="ada", at=at(0), until=at(60), reason="the holidays")

# What an attempt at a version may say; the version that it finds live is drawn beside it.
ATTEMPTS = st.sampled_from(("promoted", "rolled_back", "open", "held", "refused", "way_back", "rejected"))


def said(what: str, version: int, stable: int) -> list[EventData]:
    """Return what such an attempt says."""
    match what:
        case "promoted":
            return promoted(MODEL, version, stable)
        case "rolled_back":
            return rolled_back(MODEL, version, stable)
        case "open":
            return begun(MODEL, version, stable)
        case "held":
            return [*begun(MODEL, version, stable), RaiseHeld(weight=5, hold="a freeze")]
        case "refused":
            return [
                *begun(MODEL, version, stable),
                StageFinished(stage="mirror", outcome="refused", reason="other answers"),
                ReleaseFinished(outcome="refused", refused_by="mirror", reason="other answers"),
            ]
        case "way_back":
            return [
                ReleaseStarted(
                    stable_storage_uri=uri(MODEL, stable), required=Requirements(gates=("validate",))
                ),
                StageStarted(stage="validate"),
            ]
        case _:
            return [VersionRejected(reason="no", by="ada"), UnknownEvent("of_later", {"a": 1})]


@st.composite
def records(draw: st.DrawFn) -> dict[int, list[Event]]:
    """Draw the records of a model: attempts at its versions, one after another."""
    events: dict[int, list[Event]] = {}
    drawn = draw(st.lists(st.tuples(ATTEMPTS, st.integers(1, 4), st.integers(1, 4)), max_size=8))
    for number, (what, version, stable) in enumerate(drawn):
        known = events.setdefault(version, [])
        known += record_of(
            MODEL,
            version,
            said(what, version, stable),
            begins_at=at(10 * number),
            release_id=f"{MODEL}-{version}-{number}",
            first_seq=len(known) + 1,
        )
    return events


def folded(events: dict[int, list[Event]], context: ModelContext) -> ModelDocument:
    """Return the document of all records at once."""
    lines = [version_line(one, files_gone=version == 1) for version, one in events.items()]
    stands = [open_release(one) for one in events.values()]
    return model_document(MODEL, lines, open_now=stands, context=context, written_at=NOW)


@settings(max_examples=examples(75), deadline=None)
@given(records(), st.randoms(use_true_random=False), st.sets(st.integers(1, 4)))
def test_one_version_after_another_is_all_at_once(
    events: dict[int, list[Event]], random, pinned: set[int]
) -> None:
    """In any order, with parts of a record before the whole, and with what is old once more after what is new."""
    context = ModelContext(frozenset(pinned), (FREEZE,))
    parts = [(version, len(one)) for version, one in events.items()]
    parts += [(version, random.randint(1, len(one))) for version, one in events.items()]
    parts += [(version, random.randint(1, len(one))) for version, one in events.items()]
    random.shuffle(parts)
    document = None
    for version, length in parts:
        part = events[version][:length]
        document = updated(
            document,
            version_line(part, files_gone=version == 1),
            open_now=open_release(part),
            context=context,
            written_at=NOW,
        )
    if document is not None:
        assert document == folded(events, context)
        assert ModelDocument.from_bytes(document.to_bytes(), "it") == document
        assert context_of(document).freezes == (FREEZE,)


def test_what_is_live_and_what_was_before() -> None:
    """A promotion makes a version live from then on; a person's rollback that has only begun changes nothing."""
    events = {
        1: record_of(MODEL, 1, promoted(MODEL, 1, None), begins_at=at(0)),
        2: record_of(MODEL, 2, promoted(MODEL, 2, 1), begins_at=at(60)),
    }
    document = folded(events, ModelContext())
    assert (document.live_version, document.previous_version) == (2, 1)
    assert document.live_since == events[2][-2].at
    assert document.live_promoted_for == "ada"
    assert document.last is not None
    assert document.last.version == 2
    way_back = record_of(
        MODEL, 2, said("way_back", 2, 1), begins_at=at(90), release_id="back", first_seq=len(events[2]) + 1
    )
    document = folded({**events, 2: events[2] + way_back}, ModelContext())
    assert document.live_version == 2
    assert document.open_release is not None
    assert document.open_release.is_rollback
    assert document.open_release.stable_version == 1


def test_where_an_open_release_stands() -> None:
    """Stage, step, weights, what it waits for, and who started it."""
    events = record_of(
        MODEL,
        3,
        [*begun(MODEL, 3, 1), *step_of(MODEL, 3, 1, 5, "pass"), *step_of(MODEL, 3, 1, 50, "pass")[:2]],
    )
    stands = open_release(events)
    assert stands is not None
    assert (stands.stage, stands.step, stands.steps, stands.weights) == ("canary", 2, 2, (5, 50))
    assert (stands.weight_intended, stands.weight_observed, stands.triggered_by) == (50, 50, "ada")
    asked = [
        *events,
        Event(len(events) + 1, NOW, events[0].release_id, MODEL, 3, StageStarted(stage="approve")),
    ]
    waiting = open_release(asked)
    assert waiting is not None
    assert (waiting.waits_for_approval, waiting.waits_since) == ("canary", NOW)


def test_since_when_and_until_when_a_raise_is_held() -> None:
    """By the first event that told it since the last raise, and by the newest one."""
    held = [
        RaiseHeld(weight=50, hold="a freeze", until=at(60)),
        RaiseHeld(weight=50, hold="a freeze", until=at(90)),
    ]
    steps = step_of(MODEL, 3, 1, 5, "pass")
    events = record_of(MODEL, 3, [*begun(MODEL, 3, 1), RaiseHeld(weight=5, hold="closed"), *steps, *held])
    stands = open_release(events)
    assert stands is not None
    assert (stands.held, stands.held_since, stands.held_until) == ("a freeze", events[-2].at, at(90))
    raised = [
        *events,
        Event(len(events) + 1, NOW, events[0].release_id, MODEL, 3, step_of(MODEL, 3, 1, 50, "")[0]),
    ]
    stands = open_release(raised)
    assert stands is not None
    assert (stands.held, stands.held_since) == ("", None)


def test_a_release_that_was_never_concluded_is_not_under_way_any_more() -> None:
    """The release that began last is the one under way; one before it has died."""
    events = {
        1: record_of(MODEL, 1, begun(MODEL, 1, None), begins_at=at(0)),
        2: record_of(MODEL, 2, promoted(MODEL, 2, None), begins_at=at(60)),
    }
    assert folded(events, ModelContext()).open_release is None


def test_a_version_says_who_wanted_what() -> None:
    """Approvals, rejections and their lifting, and the reason that a person gave."""
    agreed = Approved(before="canary", by="grace", manifest_sha256="0" * 64)
    rejected = VersionRejected(reason="no", by="ada")
    events = record_of(MODEL, 3, [*begun(MODEL, 3, 1), agreed, rejected])
    line = version_line(events)
    assert [(one.before, one.by) for one in line.approvals] == [("canary", "grace")]
    assert line.rejection is not None
    assert line.rejection.by == "ada"
    assert (line.triggered_by, line.started_reason) == ("ada", "a better one")
    lifted = VersionUnrejected(reason="yes", by="grace", rejection_seq=len(events))
    later = [*events, Event(len(events) + 1, NOW, "a person", MODEL, 3, lifted)]
    assert version_line(later).rejection is None
    only = version_line(record_of(MODEL, 4, [rejected]))
    assert only.rejected_only
    assert not version_line(later).rejected_only


def test_a_record_that_cannot_be_read_hides_no_other_version() -> None:
    """Its line says what is wrong, and the rest is as it was."""
    line = version_line(record_of(MODEL, 1, promoted(MODEL, 1, None)))
    broken = unreadable_line(MODEL, 2, "it has gaps")
    document = model_document(MODEL, [line, broken], open_now=(), context=ModelContext(), written_at=NOW)
    assert document.live_version == 1
    found = document.line(2)
    assert found is not None
    assert found.unreadable == "it has gaps"
    mended = version_line(record_of(MODEL, 2, promoted(MODEL, 2, 1), begins_at=at(60)))
    document = updated(document, mended, open_now=None, context=ModelContext(), written_at=NOW)
    assert document.live_version == 2


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.name)
def test_records_of_every_age_are_shown(path: Path) -> None:
    """What lies in S3 since before a change has a line, steps and a log, and all of it fits into its document."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    events = [Event.from_bytes(line["content"].encode(), line["key"]) for line in lines]
    view = release_view(events)
    assert ReleaseView.from_bytes(view.to_bytes(), "it") == view
    assert len(view.log) == len(events)
    assert view.steps
    document = updated(None, view.line, open_now=view.open_now, context=ModelContext(), written_at=NOW)
    assert ModelDocument.from_bytes(document.to_bytes(), "it") == document
    if view.line.outcome != "open":
        assert {step.state for step in view.steps}.isdisjoint({"here", "ahead"})


def test_a_text_without_end_fits() -> None:
    """What somebody wrote at length, over many lines, is cut to what a document holds."""
    events = record_of(
        MODEL,
        1,
        [ReleaseStarted(triggered_by="a" * 5000, reason="so\n" * 5000), StageStarted(stage="x" * 3000)],
    )
    view = release_view(events)
    assert len(view.line.triggered_by) == 1000
    assert "\n" not in view.line.started_reason
    assert max(len(line.sentence) for line in view.log) <= 1000


def test_seconds_are_those_of_the_attempt() -> None:
    """From its start to its end; None while it is open."""
    events = record_of(MODEL, 1, promoted(MODEL, 1, None), step=timedelta(seconds=7))
    assert version_line(events).seconds == 7.0 * (len(events) - 1)
    assert version_line(events[:3]).seconds is None
