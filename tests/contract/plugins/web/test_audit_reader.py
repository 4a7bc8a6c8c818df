"""The audit's reader: within its limits it leaves nothing out, and it says what it left out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.writer import ViewWriter
from slipway.web.audit import reader as limits
from slipway.web.audit.reader import AuditQuery, AuditReader
from slipway_core.errors import StoreUnavailableError
from slipway_core.operations.freezes import freeze, lifted, parse_freeze
from slipway_core.read_model.documents import ModelDocument, Unreadable
from tests.support.web.attempts import Attempt

NOW = datetime.now(UTC).replace(microsecond=0)
ALL = AuditQuery(NOW - timedelta(days=30), NOW + timedelta(minutes=1))


def released(store: ModelStoreHook, *models: str) -> dict[str, ModelDocument | Unreadable]:
    """Write a release of each model, by a person; return their documents."""
    found: dict[str, ModelDocument | Unreadable] = {}
    for place, model in enumerate(models):
        one = Attempt(
            store, model, 1, None, NOW - timedelta(days=place + 1), by="mira", approvals=("canary",)
        )
        one.begin()
        one.approve("jonas")
        one.promote()
        document = ViewWriter(store).bring_up_to_date(model)
        assert document is not None
        found[model] = document
    return found


def told(
    store: ModelStoreHook, models: Mapping[str, ModelDocument | Unreadable], asked: AuditQuery = ALL
) -> list[str]:
    return [f"{act.by} {act.act} {act.model}" for act in AuditReader(store).read(models, asked).acts]


def test_every_attempt_of_a_record_counts_the_earlier_ones_too(store: ModelStoreHook) -> None:
    """The read model has the newest attempt alone; the audit reads the record."""
    released(store, "digits")
    again = Attempt(
        store, "digits", 1, None, NOW - timedelta(hours=1), by="olga", release_id="digits-1-2", first_seq=20
    )
    again.begin()
    document = ViewWriter(store).bring_up_to_date("digits", [1])
    assert document is not None
    assert told(store, {"digits": document}) == [
        "olga started a release digits",
        "jonas approved before the canary digits",
        "mira started a release digits",
    ]


def test_what_lies_before_the_time_that_is_asked_for_is_left_out(store: ModelStoreHook) -> None:
    """And of one model, or one person, the rest."""
    models = released(store, "digits", "churn")
    newest = AuditQuery(NOW - timedelta(days=1, minutes=5), NOW)
    assert {line.split()[-1] for line in told(store, models, newest)} == {"digits"}
    of_jonas = AuditQuery(ALL.begins, ALL.ends, "churn", "jonas")
    assert told(store, models, of_jonas) == ["jonas approved before the canary churn"]


def test_who_froze_and_who_lifted_it(store: ModelStoreHook) -> None:
    """Also of a freeze that has ended since."""
    key, content = freeze(
        None, who="ops", now=NOW - timedelta(days=2), until=NOW - timedelta(days=1), reason="sale", run_id="r"
    )
    store.write_once(key, content)
    lifting, word = lifted(
        parse_freeze(content, key), who="olga", now=NOW - timedelta(hours=40), reason="over"
    )
    store.write_once(lifting, word)
    assert told(store, {}) == ["olga lifted a freeze ", "ops froze "]


def test_what_was_read_is_not_read_again(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the record has another event."""
    models = released(store, "digits")
    reader = AuditReader(store)
    first = reader.read(models, ALL)
    asked: list[str] = []
    read = store.read
    monkeypatch.setattr(store, "read", lambda key, **more: (asked.append(key), read(key, **more))[1])
    assert reader.read(models, ALL) == first
    assert asked == []


def test_more_than_the_limit_is_said(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are read; nobody takes a part for the whole."""
    models = released(store, "digits", "churn")
    monkeypatch.setattr(limits, "RECORDS_LIMIT", 1)
    audit = AuditReader(store).read({**models, "lost": Unreadable("lost", "a gap")}, ALL)
    assert {act.model for act in audit.acts} == {"digits"}
    assert "1 more version changed" in audit.left_out
    assert "lost" in audit.left_out
    monkeypatch.setattr(limits, "TIME_LIMIT_S", -1.0)
    late = AuditReader(store).read(models, ALL)
    assert late.acts == ()
    assert "could not be read in time" in late.left_out


def test_what_cannot_be_right_is_left_out_and_the_rest_is_there(store: ModelStoreHook) -> None:
    """Objects that somebody else has put there."""
    models = released(store, "digits")
    store.write("records/digits/1/000099-approved.json", b'{"by": "mallory"}')
    store.write("operations/audit/digits/1/run-pinned.json", b"[" * 10_000)
    store.write("operations/findings/digits/1-inputs.json", b"no JSON")
    store.write("records/digits/freezes/20991231T000000Z-0123456789abcdef.json", b"{}")
    assert told(store, models) == [
        "jonas approved before the canary digits",
        "mira started a release digits",
    ]


def test_a_store_that_is_away_is_no_empty_audit(cut_off_store: ModelStoreHook) -> None:
    """Could not read is never nobody did anything."""
    with pytest.raises(StoreUnavailableError):
        AuditReader(cut_off_store).read({}, ALL)
