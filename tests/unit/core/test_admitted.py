"""What admission pins, and what is told of a task that was handed something else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slipway_core.admitted import Admitted, digest_of, handed_otherwise, require_consistent_stable
from slipway_core.errors import HandedOtherwiseError
from slipway_core.record.events import Event, EventWriter, RecordError
from slipway_core.record.kinds import ReleaseStarted

PINNED = Admitted("models", "team", "digits", "s3://models/models/digits/2/repository", "a" * 64)
NOW = datetime(2026, 11, 25, tzinfo=UTC)


@pytest.mark.parametrize("name", list(vars(PINNED)))
def test_each_difference_is_told_with_both(name: str) -> None:
    """What was expected is the record's, what was found is what the task was handed."""
    error = handed_otherwise(replace(PINNED, **{name: "other"}), PINNED)
    assert isinstance(error, HandedOtherwiseError)
    assert (error.expected, error.found) == (getattr(PINNED, name), "other")
    assert handed_otherwise(PINNED, PINNED) is None
    assert handed_otherwise(PINNED, None) is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3://models/models/digits/3/repository",
        "s3://models/models/fraud/2/repository",
        "s3://models/models/digits/2",
        "",
        "file:///models/digits/2/repository",
    ],
)
def test_number_and_place_are_of_one_version(uri: str) -> None:
    """A version that may have users is no permission for what lies elsewhere."""
    require_consistent_stable("digits", 2, PINNED.stable_storage_uri)
    with pytest.raises(HandedOtherwiseError, match="the stable version differs"):
        require_consistent_stable("digits", 2, uri)


def test_the_record_keeps_it() -> None:
    """An event with it is read as it was written, and one of another form is refused."""
    event = EventWriter("digits-3", "digits", 3).event(1, NOW, ReleaseStarted(admitted=PINNED))
    found = Event.from_bytes(event.to_bytes(), event.key).data
    assert isinstance(found, ReleaseStarted)
    assert found.admitted == PINNED
    for form in (b"[]", b"1", b"null"):
        damaged = event.to_bytes().replace(b'"team"', form)
        with pytest.raises(RecordError, match="admitted"):
            Event.from_bytes(damaged, event.key)


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    """A document that came through JSON has the digest that it had."""
    assert digest_of({"a": 1, "b": [1, {"c": "ä", "d": None}]}) == digest_of(
        {"b": [1, {"d": None, "c": "ä"}], "a": 1}
    )
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
