"""Whether an act makes sense now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway_core.acts.availability import availability
from slipway_core.acts.situation import Available, Refused, Situation
from slipway_core.acts.table import ACTS
from slipway_core.read_model.documents import (
    VERSIONS_LIMIT,
    FreezeLine,
    ModelDocument,
    OpenRelease,
    RejectionLine,
    VersionLine,
)
from slipway_core.read_model.live import LiveDocument

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
REJECTION = RejectionLine(sentence="rejected by anna: wrong answers", at=NOW, by="anna")


def _line(version: int, **changes: Any) -> VersionLine:
    return VersionLine(model="digits", version=version, release_id=f"digits-{version}", **changes)


def _document(**changes: Any) -> ModelDocument:
    """Return a model with version 2 live, 1 before it, and a version 3 that was refused."""
    versions = (
        _line(5, standing="rolled_back", outcome="rolled_back", rejection=REJECTION, triggered_by="ben"),
        _line(4, standing="promoted", files_gone=True, pinned=False),
        _line(3, outcome="failed"),
        _line(2, standing="promoted", outcome="promoted", pinned=True),
        _line(1, standing="promoted", outcome="promoted"),
    )
    given = {"live_version": 2, "previous_version": 1, "versions": versions} | changes
    return ModelDocument(model="digits", written_at=NOW, **given)


def _open(**changes: Any) -> OpenRelease:
    given: dict[str, Any] = {"version": 6, "release_id": "digits-6", "triggered_by": "ben"}
    return OpenRelease(**(given | changes))


CANARY = _open(stage="canary", weight_intended=20, weight_observed=20, step=1, steps=3)
QUIET = Situation(_document())
ON_CANARY = Situation(_document(open_release=CANARY))
PAUSED = Situation(_document(open_release=_open(weight_intended=20, paused="ben: a look")))
PREPARING = Situation(_document(open_release=_open(stage="convert")))
ASKING = Situation(_document(open_release=_open(stage="approve", waits_for_approval="canary")), by_other=True)
GOING_BACK = Situation(_document(open_release=_open(weight_intended=0, rolling_back=True)))
BY_HAND = Situation(_document(open_release=_open(version=2, is_rollback=True)))
FREEZE = FreezeLine(by="anna", at=NOW, until=NOW + timedelta(days=1), reason="holidays")

REFUSED: list[tuple[str, Situation, str]] = [
    ("release", replace(ON_CANARY, version=6), "slipway get digits -w"),
    ("release", replace(QUIET, version=5), 'slipway unreject digits 5 --reason "…"'),
    ("release", replace(QUIET, version=5, force=True), 'slipway unreject digits 5 --reason "…"'),
    ("release", replace(QUIET, version=4), "slipway get digits"),
    ("release", replace(QUIET, version=2), "slipway release digits 2 --force"),
    ("release", replace(QUIET, version=1), 'slipway rollback digits --to 1 --reason "…"'),
    ("rollback", replace(QUIET, version=2), "slipway get digits"),
    ("rollback", replace(QUIET, version=3), "slipway release digits 3"),
    ("rollback", replace(QUIET, version=4), "slipway get digits"),
    ("pause", QUIET, "slipway get digits"),
    ("pause", PREPARING, "slipway get digits -w"),
    ("pause", PAUSED, "slipway resume digits"),
    ("pause", GOING_BACK, "slipway get digits -w"),
    ("resume", QUIET, "slipway get digits"),
    ("resume", ON_CANARY, "slipway pause digits"),
    ("approve", QUIET, "slipway get digits"),
    ("approve", ON_CANARY, "slipway get digits"),
    ("approve", replace(ASKING, person="ben"), "slipway approve digits"),
    ("decline", ON_CANARY, "slipway get digits"),
    ("abort", QUIET, "slipway get digits"),
    ("abort", GOING_BACK, "slipway get digits -w"),
    ("abort", BY_HAND, "slipway get digits -w"),
    ("reject", replace(QUIET, version=5), 'slipway unreject digits 5 --reason "…"'),
    ("unreject", replace(QUIET, version=1), "slipway get digits"),
    (
        "unreject",
        replace(QUIET, version=5, by_other=True, person="ben"),
        'slipway unreject digits 5 --reason "…"',
    ),
    ("thaw", replace(QUIET, freezes=()), 'slipway freeze --model digits --until … --reason "…"'),
    ("override", replace(QUIET, freezes=()), "slipway get digits"),
    (
        "override",
        replace(QUIET, freezes=(FREEZE,), person="anna"),
        'slipway thaw --model digits --reason "…"',
    ),
    ("pin", replace(QUIET, version=2), 'slipway unpin digits 2 --reason "…"'),
    ("pin", replace(QUIET, version=4), "slipway get digits"),
    ("unpin", replace(QUIET, version=1), 'slipway pin digits 1 --reason "…"'),
    ("close_finding", replace(QUIET, findings=()), "slipway get digits"),
    ("tune", replace(QUIET, version=4), "slipway get digits"),
    ("tune", replace(QUIET, version=99), "slipway get digits"),
    ("tune", replace(QUIET, document=_document(versions=()), version=1), "slipway list"),
    ("benchmark", replace(QUIET, version=4), "slipway get digits"),
    (
        "benchmark",
        Situation(_document(live_version=None, previous_version=None)),
        "slipway benchmark digits --version …",
    ),
    ("tune", Situation(_document(versions=(_line(7, rejected_only=True),)), version=7), "slipway list"),
]
AVAILABLE: list[tuple[str, Situation]] = [
    ("release", QUIET),
    ("release", replace(QUIET, version=7)),
    ("release", replace(QUIET, version=3)),
    ("release", replace(QUIET, version=2, force=True)),
    ("release", replace(ON_CANARY, version=7)),
    ("rollback", QUIET),
    ("rollback", ON_CANARY),
    ("rollback", PREPARING),
    ("rollback", GOING_BACK),
    ("rollback", BY_HAND),
    ("rollback", Situation(_document(previous_version=None))),
    ("rollback", Situation(_document(live_version=None, previous_version=None))),
    ("rollback", replace(QUIET, version=1)),
    ("pause", ON_CANARY),
    ("resume", PAUSED),
    ("approve", replace(ASKING, person="anna")),
    ("approve", replace(ASKING, by_other=False, person="ben")),
    ("decline", replace(ASKING, person="ben")),
    ("abort", ON_CANARY),
    ("abort", PREPARING),
    ("reject", replace(QUIET, version=2)),
    ("unreject", replace(QUIET, version=5, by_other=True, person="carl")),
    ("freeze", QUIET),
    ("thaw", replace(QUIET, freezes=(FREEZE,))),
    ("thaw", QUIET),
    ("override", replace(QUIET, freezes=(FREEZE,), person="ben")),
    ("pin", replace(QUIET, version=1)),
    ("unpin", replace(QUIET, version=2)),
    ("close_finding", replace(QUIET, findings=("2-published",))),
    ("tune", replace(QUIET, version=2)),
    ("tune", QUIET),
    ("benchmark", replace(QUIET, version=1)),
    ("benchmark", QUIET),
]


@pytest.mark.parametrize(("name", "situation", "command"), REFUSED)
def test_a_refusal_has_a_reason_and_the_next_command(name: str, situation: Situation, command: str) -> None:
    """What makes no sense now is refused with a sentence and with what to type instead."""
    found = availability(name, situation)
    assert isinstance(found, Refused)
    assert found.next_command == command
    assert len(found.reason) > 10


@pytest.mark.parametrize(("name", "situation"), AVAILABLE)
def test_what_makes_sense_is_offered(name: str, situation: Situation) -> None:
    """An act is offered wherever nothing that is known speaks against it."""
    assert isinstance(availability(name, situation), Available)


def test_every_act_can_be_refused_but_a_freeze() -> None:
    """There is a situation for each act in which it makes no sense; a freeze always does."""
    assert {name for name, _, _ in REFUSED} == set(ACTS) - {"freeze"}
    assert {name for name, _ in AVAILABLE} == set(ACTS)


def test_a_roll_back_says_where_users_go() -> None:
    """Before a person confirms it is told which version gets the users, off a canary as well as off a live version."""
    off_the_canary, off_live = availability("rollback", ON_CANARY), availability("rollback", QUIET)
    assert isinstance(off_the_canary, Available)
    assert "leave version 6" in off_the_canary.description
    assert "version 2 has all" in off_the_canary.description
    assert isinstance(off_live, Available)
    assert "from version 2 to version 1" in off_live.description


def test_no_document_forbids_to_take_users_back() -> None:
    """A document may be behind: where it knows of nothing to go back from it says so, and the workflow is asked."""
    nothing_live = Situation(_document(live_version=None, previous_version=None))
    assert availability("rollback", nothing_live) == Available(
        "The records name no live version. The rollback reads the cluster instead."
    )


def test_the_live_document_tells_of_a_pause_first() -> None:
    """A pause that the watch knows of counts before the model's document has it."""
    live = LiveDocument(
        model="digits", version=6, release_id="digits-6", written_at=NOW, paused="ben: a look"
    )
    assert isinstance(availability("resume", replace(ON_CANARY, live=live)), Available)
    assert isinstance(availability("pause", replace(ON_CANARY, live=live)), Refused)
    of_another = live.model_copy(update={"release_id": "digits-5"})
    assert isinstance(availability("pause", replace(ON_CANARY, live=of_another)), Available)


def test_a_version_that_is_not_there_is_refused_with_those_that_are() -> None:
    """Who tunes a version that was never released reads which ones can be: not those whose files are gone."""
    found = availability("tune", replace(QUIET, version=99))
    assert isinstance(found, Refused)
    assert found.reason == "Version 99 of digits was never released. Versions with files: 5, 3, 2, 1."


def test_of_many_versions_the_newest_are_named() -> None:
    """A sentence stays one."""
    many = tuple(_line(number) for number in range(40, 0, -1))
    found = availability("tune", Situation(_document(versions=many), version=99))
    assert isinstance(found, Refused)
    assert found.reason.endswith(": 40, 39, 38, 37, 36, 35, 34, 33 and 32 older ones.")


def test_a_version_that_a_full_document_left_out_is_not_called_missing() -> None:
    """A document holds the newest versions alone: the workflow knows of an older one."""
    many = tuple(_line(number) for number in range(VERSIONS_LIMIT + 1, 1, -1))
    situation = Situation(_document(versions=many), version=1)
    assert isinstance(availability("tune", situation), Available)
    assert isinstance(availability("tune", replace(situation, version=9999)), Refused)


@pytest.mark.parametrize("name", ACTS)
def test_by_old_data_nothing_is_refused_that_takes_back_and_nothing_offered_that_raises(
    name: str,
) -> None:
    """Whatever the document says: what raises waits until it is known how things stand, the way back never does."""
    takes_back = {"rollback", "pause", "decline", "abort", "reject", "freeze", "pin"}
    for document in (_document(), _document(versions=(), live_version=None, previous_version=None)):
        found = availability(
            name, Situation(document, version=2, old="this is from 11:00:00 UTC (no answer)")
        )
        if name in takes_back:
            assert isinstance(found, Available)
        else:
            assert isinstance(found, Refused)
            assert "unknown: this is from 11:00:00 UTC" in found.reason
