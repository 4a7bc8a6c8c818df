"""A lease in which anybody may have written anything: it is read, believed within bounds, and never an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.lease_limits import DEFAULT_LEASE_S, LONGEST_LEASE_S
from slipway_core.rollout.lease import (
    ENDED_AT,
    ENDED_BY,
    ENDED_REASON,
    PAUSED,
    TEXT_LIMIT,
    LeaseWatch,
    parse_lease,
    renewal_due_s,
)
from slipway_core.rollout.observation import CANDIDATE_URI

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
NOTES = st.dictionaries(st.sampled_from([ENDED_BY, ENDED_AT, ENDED_REASON, PAUSED, CANDIDATE_URI]), ANYTHING)
FIELDS = st.dictionaries(
    st.sampled_from(["holderIdentity", "leaseDurationSeconds", "renewTime", "acquireTime"]), ANYTHING
)
HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "metadata": ANYTHING
        | st.fixed_dictionaries(
            {"annotations": NOTES | ANYTHING, "managedFields": ANYTHING, "name": ANYTHING}
        ),
        "spec": ANYTHING | FIELDS,
    },
)


@given(HOSTILE | ANYTHING)
def test_whatever_is_written_in_a_lease_it_can_be_read(obj: Any) -> None:
    """Reading never raises, a duration is within its bounds, and texts are short and on one line."""
    found = parse_lease(obj)
    assert 1 <= found.lease_s <= LONGEST_LEASE_S
    for text in (found.holder, found.ended_by, found.ended_reason, found.paused, found.candidate_uri):
        assert len(text) <= TEXT_LIMIT
        assert text.isprintable()
    watch = LeaseWatch.begin(found, 0.0)
    assert isinstance(watch.look(found, 5.0).why_expired(found), str)


@pytest.mark.parametrize(
    ("seconds", "believed_s"),
    [
        (10**9, LONGEST_LEASE_S),
        (2**63, LONGEST_LEASE_S),
        (0, DEFAULT_LEASE_S),
        (-5, DEFAULT_LEASE_S),
        (True, DEFAULT_LEASE_S),
        ("60", DEFAULT_LEASE_S),
        (1e9, DEFAULT_LEASE_S),
    ],
)
def test_a_duration_beyond_reason_is_not_believed(seconds: object, believed_s: int) -> None:
    """Nobody switches a guard off by writing a large number, or something else, into a lease."""
    assert parse_lease({"spec": {"leaseDurationSeconds": seconds}}).lease_s == believed_s


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "soon", 7, []])
def test_a_time_that_is_none_is_no_time(when: object) -> None:
    """A date at the edge of the calendar is not worth an error."""
    assert parse_lease({"spec": {"renewTime": when}}).renewed_at is None


def test_a_note_without_words_counts() -> None:
    """Whoever ends or pauses a canary without saying why has still done it."""
    found = parse_lease({"metadata": {"annotations": {ENDED_BY: "", PAUSED: 7}}})
    assert found.is_ended
    assert found.paused == "no reason given"


def test_a_holder_renews_soon_enough_to_notice_a_pause() -> None:
    """A long lease is renewed as often as a short one; a short one three times."""
    assert [renewal_due_s(lease_s) for lease_s in (15, 60, 3600)] == [5, 10, 10]
