"""What people are told of requests that the router led to the candidate after weight 0."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slipway_core.record.events import Event
from slipway_core.record.kinds import RolledBack
from slipway_core.reports.canary.decisions import decisions_of


def said(requests: int | None, seconds: float | None) -> str:
    """The words of the decision that ends a rollback."""
    data = RolledBack(
        stable_storage_uri=None,
        candidate_requests=None,
        candidate_errors=None,
        requests_after_weight_0=requests,
        seconds_after_weight_0=seconds,
    )
    at = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    event = Event(1, at, "digits-3", "digits", 3, data)
    return decisions_of([event])[-1].words


@pytest.mark.parametrize(
    ("requests", "seconds", "words"),
    [
        (0, 12.0, "show no request to the candidate in 12 s after weight 0"),
        (1234, 12.0, "still sent 1,234 requests to the candidate in 12 s after weight 0"),
        (None, 0.0, "the metrics source gave no data"),
    ],
)
def test_a_rollback_says_what_the_router_did(requests: int | None, seconds: float, words: str) -> None:
    """None, some, or no data."""
    assert words in said(requests, seconds)


def test_a_record_from_before_says_nothing_of_it() -> None:
    """Nobody looked then."""
    assert said(None, None) == "The stable version has all traffic again."


@pytest.mark.parametrize(
    ("how", "active", "words"),
    [
        ("counted", 0, "The candidate has no users: 9 s after weight 0 the router counted no open request"),
        ("pods_ended", None, "The candidate has no users: 9 s after weight 0 its pods were gone"),
        (
            "still_asked",
            12,
            "The candidate still has users: 9 s after weight 0 the router counts 12 open",
        ),
        ("unseen", None, "Whether the candidate still has users is unknown"),
        ("some word of a later version", None, "The stable version alone gets new requests again."),
    ],
)
def test_no_new_request_and_nobody_are_told_apart(how: str, active: int | None, words: str) -> None:
    """Only what was seen is said of the requests that were open at weight 0."""
    data = RolledBack(
        stable_storage_uri=None,
        candidate_requests=None,
        candidate_errors=None,
        drained=how,
        drain_seconds=9.0,
        open_requests=active,
    )
    at = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    assert words in decisions_of([Event(1, at, "digits-3", "digits", 3, data)])[-1].words
