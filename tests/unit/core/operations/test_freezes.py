"""Freezes and what lifts them: written once, read as what a stranger may have written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.operations.freezes import (
    FREEZE_LIMIT_BYTES,
    FreezeUnreadableError,
    first_key_after,
    freeze,
    freezes_prefix,
    is_lifted,
    lifted,
    lifted_key,
    parse_freeze,
    parse_freeze_name,
)

NOW = datetime(2026, 12, 20, 12, 0, tzinfo=UTC)
UNTIL = NOW + timedelta(days=10)


def written(
    model: str | None = None, until: datetime = UNTIL, reason: str = "holidays", run_id: str = "manual__1"
) -> tuple[str, bytes]:
    """Return the object that bob's freeze is."""
    return freeze(model, who="bob", now=NOW, until=until, reason=reason, run_id=run_id)


@pytest.mark.parametrize("model", [None, "digits"])
def test_a_freeze_reads_back_as_it_was_written(model: str | None) -> None:
    """Under a key that begins with its end; the same run asks for the same key again."""
    key, content = written(model)
    one = parse_freeze(content, key)
    assert (one.model, one.by, one.until, one.reason) == (model, "bob", UNTIL, "holidays")
    assert key.startswith(f"records/{model or '_all'}/freezes/20261230T120000Z-")
    assert written(model)[0] == key != written(model, run_id="manual__2")[0]
    assert "frozen by bob until 2026-12-30 12:00:00 UTC: holidays" in one.sentence
    assert parse_freeze_name(key, model) is True
    assert parse_freeze_name(lifted_key(key), model) is False
    assert parse_freeze_name(f"{freezes_prefix(model)}README", model) is None


@given(
    st.timedeltas(timedelta(days=1), timedelta(days=340)).map(lambda later: NOW + later),
    st.timedeltas(timedelta(days=-400), timedelta(days=400)),
)
def test_a_listing_from_now_on_has_what_is_in_force(until: datetime, since: timedelta) -> None:
    """What lies after the text by its name has not ended, and what has ended does not."""
    key, content = written(until=until)
    one = parse_freeze(content, key)
    now = one.until + since
    whole = now.replace(microsecond=0)
    assert (key > first_key_after(None, now)) == (one.until > whole)
    assert (lifted_key(key) > first_key_after(None, now)) == (one.until > whole)


@pytest.mark.parametrize("until", [NOW, NOW - timedelta(days=1), NOW + timedelta(days=367)])
def test_a_freeze_ends_within_a_year(until: datetime) -> None:
    """A stop without an end is forgotten."""
    with pytest.raises(UserError, match="must end in the future"):
        written(until=until)


def test_a_freeze_needs_a_name() -> None:
    """Nobody known cannot be asked about it."""
    with pytest.raises(UserError, match="it is unknown who"):
        freeze(None, who=None, now=NOW, until=UNTIL, reason="why", run_id="1")


def test_another_time_zone_is_the_same_moment() -> None:
    """A form may tell the end in any."""
    there = UNTIL.astimezone(timezone(timedelta(hours=5)))
    assert written(until=there)[0] == written()[0]


def test_only_its_own_freeze_is_lifted() -> None:
    """By its digest: another object under the same key is another freeze."""
    key, content = written()
    one = parse_freeze(content, key)
    at, said = lifted(one, who="carol", now=NOW, reason="it is over")
    assert at == lifted_key(key)
    assert is_lifted(said, at, one)
    other = parse_freeze(written(reason="something else")[1], key)
    assert not is_lifted(said, at, other)


def said(**changes: object) -> bytes:
    """Return the freeze with other fields."""
    return json.dumps({**json.loads(written()[1]), **changes}).encode()


HOSTILE = {
    "empty": b"",
    "no JSON": b"{",
    "another JSON": b"[]",
    "no UTF-8": b'{"by": "\xff"}',
    "a surrogate": said(by="x").replace(b'"x"', b'"\\ud800"'),
    "deep": b"[" * 5000,
    "huge": b" " * (FREEZE_LIMIT_BYTES + 1),
    "no author": said(by=""),
    "no reason": said(reason=""),
    "a long reason": said(reason="x" * 501),
    "an end without a zone": said(until="2026-12-30T12:00:00"),
    "an end that is a number": said(until=1798632000),
    "another end": said(until="2027-12-30T12:00:00Z"),
    "an end out of the calendar": said(until="9999-12-31T23:59:59-12:00"),
    "another model": said(model="digits"),
    "a model that climbs": said(model="../digits"),
    "another field": said(forever=True),
    "another kind": said(kind="lifted"),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_freeze_is_never_taken_for_none(content: bytes) -> None:
    """An error that names the object, briefly."""
    with pytest.raises(FreezeUnreadableError) as caught:
        parse_freeze(content, written()[0])
    assert "records/_all/freezes/" in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"x" * (FREEZE_LIMIT_BYTES + 1), written()[1]])
def test_what_does_not_say_so_lifts_nothing(content: bytes) -> None:
    """An empty object beside a freeze does not end it."""
    key, freezing = written()
    with pytest.raises(FreezeUnreadableError):
        is_lifted(content, lifted_key(key), parse_freeze(freezing, key))
