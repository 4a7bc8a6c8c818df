"""What people did, of events and documents: what a release did by itself is no act of a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slipway_core.operations.audit import AuditEntry
from slipway_core.operations.freezes import Freeze, Lifted
from slipway_core.operations.revalidation.findings import Closing, Episode, Finding
from slipway_core.read_model.person_acts import (
    RECORD_KINDS,
    act_of_audit,
    acts_of_event,
    acts_of_finding,
    acts_of_freeze,
)
from slipway_core.record.events import Event
from slipway_core.record.kinds import (
    Approved,
    EventData,
    HoldOverridden,
    Promoted,
    ReleaseStarted,
    RollbackStarted,
    StageFinished,
    VersionRejected,
    VersionUnrejected,
)
from slipway_core.record.requirements import Requirements

AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
URI = "s3://b/models/digits/1/repository"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (ReleaseStarted(triggered_by="mira", reason="new data"), ("mira", "started a release", "new data")),
        (
            ReleaseStarted(stable_storage_uri=URI, required=Requirements(), triggered_by="mira"),
            ("mira", "started a rollback", ""),
        ),
        (
            Approved(before="canary", by="jonas", manifest_sha256="0"),
            ("jonas", "approved before the canary", ""),
        ),
        (
            StageFinished(stage="approve", outcome="refused", reason="olga declined it", by="olga"),
            ("olga", "declined an approval", "olga declined it"),
        ),
        (
            StageFinished(stage="approve", outcome="refused", reason="an earlier version wrote no name"),
            ("", "declined an approval", "an earlier version wrote no name"),
        ),
        (VersionRejected(reason="bad", by="mira"), ("mira", "rejected", "bad")),
        (VersionRejected(reason="bad", by="mira", stage="rollback"), ("mira", "rolled back", "bad")),
        (
            VersionUnrejected(reason="fine", by="jonas", rejection_seq=1),
            ("jonas", "lifted the rejection", "fine"),
        ),
        (
            HoldOverridden(by="jonas", reason="urgent", hold="a freeze", hold_sha256="0"),
            ("jonas", "overrode a hold for the version", "urgent"),
        ),
        (
            RollbackStarted(reason="slow", by="a person", stable_storage_uri=URI),
            ("", "rolled the candidate back", "slow"),
        ),
    ],
)
def test_an_event_of_a_person_is_one_act(data: EventData, told: tuple[str, str, str]) -> None:
    """With who, what and why, and where it lies."""
    event = Event(7, AT, "digits-2", "digits", 2, data)
    (act,) = acts_of_event(event)
    assert (act.by, act.act, act.reason) == told
    assert (act.at, act.model, act.version, act.run, act.source) == (AT, "digits", 2, "digits-2", event.key)
    assert event.kind in RECORD_KINDS


@pytest.mark.parametrize(
    "data",
    [
        ReleaseStarted(),
        StageFinished(stage="validate", outcome="refused"),
        StageFinished(stage="approve", outcome="passed"),
        VersionRejected(reason="bad", stage="canary"),
        RollbackStarted(reason="errors", by="judge", stable_storage_uri=URI),
        Promoted(storage_uri=URI),
    ],
)
def test_what_a_release_did_by_itself_is_no_act(data: EventData) -> None:
    """The judge, a gate and an event are nobody."""
    assert list(acts_of_event(Event(7, AT, "digits-2", "digits", 2, data))) == []


def test_a_freeze_and_its_end_are_two_acts() -> None:
    """Each under the name of who did it."""
    one = Freeze(None, "ops", AT, AT + timedelta(hours=2), "sale", "records/_all/freezes/x.json", "0" * 64)
    lifted = Lifted("olga", AT + timedelta(hours=1), "over", "0" * 64)
    assert [(act.by, act.act, act.model) for act in acts_of_freeze(one, lifted, "k")] == [
        ("ops", "froze", ""),
        ("olga", "lifted a freeze", ""),
    ]
    assert len(list(acts_of_freeze(one, None, "k"))) == 1


def test_a_deletion_names_who_agreed() -> None:
    """Beside who started it."""
    entry = AuditEntry(
        act="deletion-finished",
        model="a",
        version=1,
        run="r",
        at=AT,
        by="mira",
        approved_by="jonas",
        reason="old",
    )
    act = act_of_audit(entry, "k")
    assert (act.by, act.agreed_by, act.act) == ("mira", "jonas", "deleted files")


def test_a_finding_that_a_run_closed_was_closed_by_nobody() -> None:
    """Those that people closed count, earlier ones too."""

    def closing(by: str | None) -> Closing:
        return Closing(at=AT, run="r", by=by, reason="looked at it")

    finding = Finding(
        model="a",
        version=1,
        check="inputs",
        is_unchecked=False,
        status="closed",
        summary="x",
        first_seen_at=AT,
        last_seen_at=AT,
        last_run="r",
        closed=closing(None),
        earlier=(Episode(opened_at=AT, opened_run="r", closed=closing("mira")),),
    )
    assert [(act.by, act.act) for act in acts_of_finding(finding, "k")] == [
        ("mira", "closed the finding 1-inputs")
    ]
