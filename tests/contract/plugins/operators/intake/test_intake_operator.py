"""FindNewVersionsOperator with events as Airflow hands them over: which versions start, and under which id."""

from __future__ import annotations

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import LockOwner, ReleaseLock
from slipway_core.errors import StoreUnavailableError
from slipway_core.record.kinds import EventData, Promoted, RollbackStarted, RolledBack
from tests.support.release.intake_steps import (
    EVENT,
    SWEEP,
    Run,
    ends,
    found,
    land,
    notification,
    started_by,
    upload_again,
    was_started,
)


def test_event_starts_its_version(store: ModelStoreHook) -> None:
    """A version whose event came is started under the id made of model, version and ready.json."""
    key = land(store, 2)
    assert found(store, Run([notification(key, store.bucket)])) == [("digits-2", EVENT)]


def test_event_that_comes_twice(store: ModelStoreHook) -> None:
    """Two messages about one version start it once."""
    body = notification(land(store, 2), store.bucket)
    assert found(store, Run([body, body])) == [("digits-2", EVENT)]


def test_event_of_a_version_that_was_started(store: ModelStoreHook) -> None:
    """An event that is told again after its release began starts nothing."""
    body = notification(land(store, 2), store.bucket)
    was_started(store, 2)
    assert found(store, Run([body])) == []


def test_sweep_finds_what_events_lost(store: ModelStoreHook) -> None:
    """Without any event, by the schedule, a version that landed is found."""
    land(store, 2)
    land(store, 7, model="magika")
    assert found(store) == [("digits-2", SWEEP), ("magika-7", SWEEP)]


def test_event_brings_an_older_version_along(store: ModelStoreHook) -> None:
    """An event also finds an earlier version of its model whose event was lost, and that one starts first."""
    land(store, 2)
    key = land(store, 3)
    land(store, 1, model="magika")
    assert found(store, Run([notification(key, store.bucket)])) == [
        ("digits-2", SWEEP),
        ("digits-3", EVENT),
    ]


def test_lock_of_a_running_release_is_no_obstacle(store: ModelStoreHook) -> None:
    """The sweep passes over the lock that lies beside the records."""
    land(store, 2)
    was_started(store, 1)
    ReleaseLock(store, "digits", lambda _: True).acquire(LockOwner("digits-1", 1))
    assert found(store) == [("digits-2", SWEEP)]


def test_started_and_older_versions_stay(store: ModelStoreHook) -> None:
    """What has a record is not started again, and what is older than a started version is not started at all."""
    for version in (1, 2, 3):
        land(store, version)
    was_started(store, 2)
    assert found(store) == [("digits-3", SWEEP)]


def test_by_hand_waits_for_a_person(store: ModelStoreHook) -> None:
    """A version that says so is started neither by its event nor by the sweep."""
    key = land(store, 2, start="by_hand")
    assert found(store, Run([notification(key, store.bucket)])) == []


def test_version_without_ready_is_not_complete(store: ModelStoreHook) -> None:
    """Before ready.json is there, a version has not landed."""
    store.write("incoming/digits/2/model.onnx", b"model")
    assert found(store) == []


def test_event_whose_object_is_gone(store: ModelStoreHook) -> None:
    """An event about a version that is not there any more starts nothing."""
    body = notification("incoming/digits/2/ready.json", store.bucket)
    assert found(store, Run([body])) == []


TRAFFIC = {
    "promoted": [Promoted(storage_uri="s3://b/models/digits/2")],
    "rolled back": [
        RollbackStarted(reason="errors", by="judge", stable_storage_uri=None),
        RolledBack(stable_storage_uri=None, candidate_requests=9, candidate_errors=1),
    ],
    "a rollback that did not end": [
        RollbackStarted(reason="errors", by="guard", stable_storage_uri=None),
    ],
}


@pytest.mark.parametrize("outcome", ["refused", "failed", "cancelled"])
@pytest.mark.parametrize("is_told", [True, False], ids=["by its event", "by the sweep"])
def test_mended_upload_starts(store: ModelStoreHook, outcome: str, is_told: bool) -> None:
    """A version that ended before users met it starts again, under another id, when it is uploaded anew."""
    land(store, 2)
    first = started_by(Run(), store)
    was_started(store, 2, ended=ends(outcome))
    key = upload_again(store, 2, dataset_version="mended")
    again = Run([notification(key, store.bucket)] if is_told else [], ended=first)
    assert found(store, again) == [("digits-2", EVENT if is_told else SWEEP)]
    assert started_by(again, store) != first


def test_upload_of_the_same_ready_file_starts_again(store: ModelStoreHook) -> None:
    """Where only the model was mended, and ready.json is byte for byte the one that was refused, a new id is made."""
    land(store, 2)
    first = started_by(Run(), store)
    was_started(store, 2, ended=ends("refused"))
    upload_again(store, 2)
    (second,) = started_by(Run(ended=first), store)
    assert second not in first
    assert second.startswith("digits-2-")
    assert started_by(Run(ended=[*first, second]), store) == [], "and only once for this upload"


def test_upload_that_was_refused_is_not_started_again(store: ModelStoreHook) -> None:
    """Without a new upload a refused version stays where it is, however often it is announced."""
    body = notification(land(store, 2), store.bucket)
    was_started(store, 2, ended=ends("refused"))
    assert found(store, Run([body])) == []
    assert found(store) == []


def test_upload_during_a_release_waits_for_its_end(store: ModelStoreHook) -> None:
    """A version is not started beside its own release; once that is refused, the upload that came between starts."""
    land(store, 2)
    record = was_started(store, 2)
    upload_again(store, 2, dataset_version="mended")
    assert found(store) == []
    ends("refused")(record)
    assert found(store) == [("digits-2", SWEEP)]


@pytest.mark.parametrize("events", TRAFFIC.values(), ids=TRAFFIC)
def test_version_that_users_met_never_starts_by_itself(
    store: ModelStoreHook, events: list[EventData]
) -> None:
    """A version that was promoted or taken back is not started again, whatever is uploaded and announced."""
    land(store, 2)
    was_started(store, 2, ended=ends("failed", *events))
    key = upload_again(store, 2, dataset_version="mended")
    assert found(store, Run([notification(key, store.bucket)])) == []
    assert found(store) == []


@pytest.mark.parametrize("is_in_incoming", [True, False], ids=["landed", "cleared away"])
def test_mended_version_behind_a_newer_one_stays(store: ModelStoreHook, is_in_incoming: bool) -> None:
    """A mended upload does not take the model back behind a version that was started after it."""
    land(store, 2)
    was_started(store, 2, ended=ends("refused"))
    if is_in_incoming:
        land(store, 3)
    was_started(store, 3, ended=ends("refused"))
    upload_again(store, 2, dataset_version="mended")
    assert found(store) == []


def test_mended_upload_that_is_by_hand_waits(store: ModelStoreHook) -> None:
    """A mended version whose ready.json says so waits for a person."""
    land(store, 2)
    was_started(store, 2, ended=ends("refused"))
    upload_again(store, 2, start="by_hand")
    assert found(store) == []


def test_two_intake_runs_at_once_start_one_release(store: ModelStoreHook) -> None:
    """Two runs that look at the same time name the same run, which Airflow makes once."""
    body = notification(land(store, 2), store.bucket)
    first, second = started_by(Run([body]), store), started_by(Run(), store)
    assert first == second


def test_release_that_waits_for_its_turn_is_not_started_beside_itself(store: ModelStoreHook) -> None:
    """A version whose run has not begun its record yet is left alone, uploaded again unchanged or not."""
    land(store, 2)
    run = Run(under_way=started_by(Run(), store))
    assert started_by(run, store) == []
    key = upload_again(store, 2)
    run = Run([notification(key, store.bucket)], under_way=run.under_way)
    assert (started_by(run, store), run.set_aside) == ([], [])


def test_prepared_run_does_not_block(store: ModelStoreHook) -> None:
    """A run that somebody made under the id of a version, and that has ended, does not hold up its release."""
    land(store, 2)
    prepared = started_by(Run(), store)
    run = Run(ended=prepared)
    (started,) = started_by(run, store)
    assert started not in prepared
    assert run.set_aside == []


def test_release_that_left_no_record_is_named(store: ModelStoreHook) -> None:
    """A version whose runs ended before its record began is named on the run with what to do, not passed over."""
    land(store, 2)
    first = started_by(Run(), store)
    second = started_by(Run(ended=first), store)
    run = Run(ended=[*first, *second])
    assert started_by(run, store) == []
    (reason,) = run.set_aside
    assert all(run_id in reason for run_id in [*first, *second])
    assert "upload ready.json again" in reason


def test_unreachable_store_is_tried_again(cut_off_store: ModelStoreHook) -> None:
    """Without the store nothing is concluded: the task fails in a way that Airflow tries again."""
    with pytest.raises(StoreUnavailableError):
        Run().execute(cut_off_store)
