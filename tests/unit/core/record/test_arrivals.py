"""What landed, what was started, and what is to be started."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.intake import IncomingVersion
from slipway_core.record.arrivals import (
    KEPT_FOR_S,
    Arrival,
    Kept,
    Upload,
    kept_as_json,
    kept_from,
    missing_releases,
    read_attempts,
    run_id_for,
    version_folders,
)

_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
_VERSIONS = st.builds(IncomingVersion, _NAMES, st.integers(1, 50))
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=6) | st.just("a/1"), below, max_size=3)
    ),
    max_leaves=12,
)


def events(*kinds: str, start: datetime = _AT) -> list[tuple[str, datetime]]:
    """Return the objects of a record whose events are a minute apart."""
    return [
        (f"records/digits/2/{seq:06}-{kind}.json", start + timedelta(minutes=seq))
        for seq, kind in enumerate(kinds, start=1)
    ]


@given(_VERSIONS, _VERSIONS, st.binary(max_size=20), st.binary(max_size=20))
def test_run_ids_tell_versions_and_ready_files_apart(
    one: IncomingVersion, other: IncomingVersion, ready: bytes, another: bytes
) -> None:
    """The same version with the same ready.json always has the same run id, and no two others share one."""
    same = run_id_for(one.model, one.version, ready) == run_id_for(other.model, other.version, another)
    assert same == ((one, ready) == (other, another))


def test_run_id_can_be_read() -> None:
    """A run id shows model and version, and eight digits of ready.json."""
    assert run_id_for("digits", 2, b"{}") == "digits-2-44136fa3"


def test_second_id_of_an_upload_is_its_own() -> None:
    """Both ids of an arrival are the same whenever it is looked at; a later upload shares only the first."""
    incoming = IncomingVersion("digits", 2)
    seen = Arrival.of(incoming, b"{}", _AT)
    listed = Arrival.of(
        incoming, b"{}", (_AT + timedelta(milliseconds=700)).astimezone(timezone(timedelta(hours=2)))
    )
    later = Arrival.of(incoming, b"{}", _AT + timedelta(seconds=1))
    assert seen == listed
    assert seen.run_ids[0] == later.run_ids[0] == run_id_for("digits", 2, b"{}")
    assert len({*seen.run_ids, *later.run_ids}) == 3


@pytest.mark.parametrize(
    ("kinds", "can_be_followed"),
    [
        (["release_started"], False),
        (["release_started", "stage_started"], False),
        (["release_started", "stage_finished", "release_finished"], True),
        (["release_started", "release_finished", "release_started"], False),
        (["release_started", "release_finished", "release_started", "release_finished"], True),
        (["release_started", "promoted", "release_finished"], False),
        (["release_started", "rollback_started", "rolled_back", "release_finished"], False),
        (["release_started", "promoted", "release_finished", "release_started", "release_finished"], False),
        (["something_newer", "release_finished"], True),
        (["release_started", "version_rejected", "release_finished"], False),
        (["release_started", "version_rejected", "release_finished", "version_unrejected"], True),
        (["version_rejected"], False),
        (["version_rejected", "version_unrejected"], False),
        (["version_rejected", "version_unrejected", "release_started", "release_finished"], True),
    ],
)
def test_release_can_be_followed_where_it_ended_before_users(kinds: list[str], can_be_followed: bool) -> None:
    """Only where the last release has ended, and none was promoted or taken back, may another one follow by itself."""
    attempts, strays = read_attempts(events(*kinds))
    assert attempts is not None
    assert (attempts.can_be_followed, strays) == (can_be_followed, [])


def test_last_start_counts() -> None:
    """What a release was started from lay there before its last start."""
    attempts, _ = read_attempts(reversed(events("release_started", "release_finished", "release_started")))
    assert attempts is not None
    assert attempts.started_at == _AT + timedelta(minutes=3)


def test_objects_that_are_no_events_start_nothing() -> None:
    """A record in which no event lies was never begun, and what lies there is named."""
    assert read_attempts([("records/digits/2/README", _AT), ("records/digits/2/", _AT)]) == (
        None,
        ["records/digits/2/README", "records/digits/2/"],
    )


def test_names_are_sorted_into_versions_and_strays() -> None:
    """Keys and folders below a model belong to a version or are named, each once; the folder itself is neither."""
    prefix = "incoming/digits/"
    names = [
        "",
        "2/ready.json",
        "2/a/b",
        "3/",
        "README",
        "x/1",
        "x/2",
        "03/ready.json",
        "3\n/a",
        f"{2**63}/a",
        "/a",
    ]
    versions, strays = version_folders(prefix, [f"{prefix}{name}" for name in names])
    assert versions == {2: {"ready.json", "a/b"}, 3: {""}}
    assert strays == [f"{prefix}{name}" for name in ("README", "x/", "03/", "3\n/", f"{2**63}/", "/")]


@given(st.lists(_VERSIONS, max_size=8), st.lists(_VERSIONS, max_size=8))
def test_the_sweep_finds_what_was_never_started(
    incoming: list[IncomingVersion], started: list[IncomingVersion]
) -> None:
    """The sweep returns versions newer than all that were started, in order; then nothing is left."""
    missing = missing_releases(incoming, started)
    assert missing == sorted(set(missing))
    assert set(missing) <= set(incoming) - set(started)
    for version in missing:
        assert all(version.version > other.version for other in started if other.model == version.model)
    assert missing_releases(incoming, [*started, *missing]) == []


def test_the_sweep_does_not_go_back_behind_a_newer_release() -> None:
    """Version 2, lost while 3 was released, is left alone; version 4 is found."""
    incoming = [IncomingVersion("digits", number) for number in (1, 2, 3, 4)]
    started = [IncomingVersion("digits", 1), IncomingVersion("digits", 3)]
    assert missing_releases(incoming, started) == [IncomingVersion("digits", 4)]


@given(st.dictionaries(_VERSIONS, st.none() | st.text(max_size=40), max_size=6))
def test_what_is_kept_comes_back(found: dict[IncomingVersion, str | None]) -> None:
    """What was learnt of ready.json files is the same after Airflow has kept it, until it is too old."""
    upload = Upload('"etag"', _AT)
    kept = {
        incoming: Kept.of(upload, 1000.7, None if reason is None else UserError(reason))
        for incoming, reason in found.items()
    }
    stored = json.loads(json.dumps(kept_as_json(kept)))
    assert kept_from(stored, 1001) == kept
    assert kept_from(stored, 1000 + KEPT_FOR_S) == {}
    assert kept_from(stored, 999) == {}


@given(_JSON)
def test_any_state_is_read_without_an_error(value: Any) -> None:
    """Whatever Airflow's state store holds, it is read as something or as nothing."""
    assert all(isinstance(kept, Kept) for kept in kept_from(value, 1000).values())


def test_what_is_kept_is_bounded() -> None:
    """However many versions wait for a person, what is kept of them fits into its state store, the newest first."""
    upload = Upload('"etag"', _AT)
    kept = {
        IncomingVersion("digits", number): Kept.of(upload, 1000, UserError("x" * 5000))
        for number in range(1, 3000)
    }
    stored = kept_as_json(kept)
    assert 100 < len(stored) < 3000
    assert len(json.dumps(stored)) < 65_535
    assert "digits/2999" in stored


@pytest.mark.parametrize(
    ("kinds", "taken_back", "finished"),
    [
        (["release_started", "promoted", "release_finished"], False, True),
        (["release_started", "rollback_started", "rolled_back", "release_finished"], True, True),
        (["release_started", "rollback_started"], True, False),
        (["release_started", "promoted", "release_finished", "release_started", "rolled_back"], True, False),
        (["release_started", "rolled_back", "release_finished", "release_started", "promoted"], False, False),
        (["release_started", "rolled_back", "version_rejected", "version_unrejected"], False, False),
        (["version_rejected"], False, False),
    ],
)
def test_names_tell_whether_users_were_taken_back(kinds: list[str], taken_back: bool, finished: bool) -> None:
    """After the last promotion and the last word of a person; the event that ended it is named where it is there."""
    attempts, _ = read_attempts(events(*kinds))
    assert attempts is not None
    assert attempts.taken_back is taken_back
    if taken_back:
        assert (attempts.finished_key is not None) is finished


def test_in_doubt_a_version_is_rejected() -> None:
    """Two people may write at the same moment, under the same number."""
    keys = [
        "records/digits/2/000001-version_rejected.json",
        "records/digits/2/000001-version_unrejected.json",
    ]
    for order in (keys, keys[::-1]):
        attempts, _ = read_attempts((key, _AT) for key in order)
        assert attempts is not None
        assert attempts.rejected
        assert attempts.started_at is None
