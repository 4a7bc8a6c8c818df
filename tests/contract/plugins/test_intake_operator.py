"""FindNewVersionsOperator with events as Airflow hands them over: hints, a sweep, and whatever else a queue holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus

import pytest
from slipway.hooks.lock import LockOwner, ReleaseLock
from slipway.hooks.record import ReleaseRecord
from slipway.hooks.store import ModelStoreHook
from slipway.operators.intake import FindNewVersionsOperator
from structlog.testing import capture_logs

from include.model_release.errors import StoreUnavailableError


def land(store: ModelStoreHook, version: int, model: str = "digits", **ready: Any) -> str:
    """Let training leave a version; return the key of its ready.json."""
    key = f"incoming/{model}/{version}/ready.json"
    store.write(f"incoming/{model}/{version}/model.onnx", b"model")
    store.write_json(key, {"model": model, "version": version, **ready})
    return key


def notification(key: str, bucket: str, event: str = "ObjectCreated:Put") -> str:
    """Return the body of a message as S3 sends it, its key URL-quoted."""
    described = {"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/"), "size": 1}}
    return json.dumps({"Records": [{"eventName": event, "eventSource": "aws:s3", "s3": described}]})


def context(*bodies: str) -> Any:
    """Return a task's context for a run that these messages started."""
    messages = [{"MessageId": str(number), "Body": body} for number, body in enumerate(bodies)]
    event = SimpleNamespace(extra={"from_trigger": True, "payload": {"message_batch": messages}})
    return {"triggering_asset_events": {"incoming_model_versions": [event]} if bodies else {}}


def found(store: ModelStoreHook, run: Any) -> list[tuple[str, str]]:
    """Run the operator; return run ids and reasons of what shall start."""
    started = FindNewVersionsOperator(task_id="find", bucket=store.bucket).execute(run)
    for each in started:
        model, _, version = each["trigger_run_id"].rpartition("-")
        assert (each["conf"]["model"], each["conf"]["version"]) == (model, int(version))
    return [(each["trigger_run_id"], each["conf"]["reason"]) for each in started]


def found_and_warned(store: ModelStoreHook, run: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Run the operator; return what `found` returns, and the warnings in the task's log."""
    with capture_logs() as logs:
        started = found(store, run)
    warnings = [str(entry["event"]) for entry in logs if entry["log_level"] == "warning"]
    # Airflow's own word on an operator that a test calls directly.
    return started, [warning for warning in warnings if "outside of the Task Runner" not in warning]


def was_started(store: ModelStoreHook, version: int) -> None:
    """Let a release of the version have been started."""
    record = ReleaseRecord(store, "digits", version, f"digits-{version}")
    record.append("release_started", at=datetime(2026, 1, 2, tzinfo=UTC))


EVENT, SWEEP = "an event told of it", "the sweep found it"


def test_event_starts_its_version(store: ModelStoreHook) -> None:
    """A version whose event came is started under the run id made of model and version."""
    key = land(store, 2)
    assert found(store, context(notification(key, store.bucket))) == [("digits-2", EVENT)]


def test_event_that_comes_twice(store: ModelStoreHook) -> None:
    """Two messages about one version start it once."""
    body = notification(land(store, 2), store.bucket)
    assert found(store, context(body, body)) == [("digits-2", EVENT)]


def test_event_of_a_version_that_was_started(store: ModelStoreHook) -> None:
    """An event that is told again after its release began starts nothing."""
    body = notification(land(store, 2), store.bucket)
    was_started(store, 2)
    assert found(store, context(body)) == []


def test_sweep_finds_what_events_lost(store: ModelStoreHook) -> None:
    """Without any event, by the schedule, a version that landed is found."""
    land(store, 2)
    land(store, 7, model="magika")
    assert found(store, context()) == [("digits-2", SWEEP), ("magika-7", SWEEP)]


def test_sweep_goes_along_with_an_event(store: ModelStoreHook) -> None:
    """A run that one version's event started also finds another whose event was lost; in the order of versions."""
    land(store, 2)
    key = land(store, 3)
    assert found(store, context(notification(key, store.bucket))) == [
        ("digits-2", SWEEP),
        ("digits-3", EVENT),
    ]


def test_lock_of_a_running_release_is_no_obstacle(store: ModelStoreHook) -> None:
    """The sweep passes over the lock that lies beside the records."""
    land(store, 2)
    was_started(store, 1)
    ReleaseLock(store, "digits", lambda _: True).acquire(LockOwner("digits-1", 1))
    assert found(store, context()) == [("digits-2", SWEEP)]


def test_started_and_older_versions_stay(store: ModelStoreHook) -> None:
    """What has a record is not started again, and what is older than a started version is not started at all."""
    for version in (1, 2, 3):
        land(store, version)
    was_started(store, 2)
    assert found(store, context()) == [("digits-3", SWEEP)]


def test_by_hand_waits_for_a_person(store: ModelStoreHook) -> None:
    """A version that says so is started neither by its event nor by the sweep."""
    key = land(store, 2, start="by_hand")
    assert found(store, context(notification(key, store.bucket))) == []


def test_version_without_ready_is_not_complete(store: ModelStoreHook) -> None:
    """Before ready.json is there, a version has not landed."""
    store.write("incoming/digits/2/model.onnx", b"model")
    assert found(store, context(notification("incoming/digits/2/model.onnx", store.bucket))) == []


def test_event_whose_object_is_gone(store: ModelStoreHook) -> None:
    """An event about a version that is not there any more starts nothing."""
    body = notification("incoming/digits/2/ready.json", store.bucket)
    assert found(store, context(body)) == []


BAD_BODIES = {
    "not JSON": "{",
    "empty": "",
    "no records": '{"Service": "else"}',
    "a list": "[]",
    "records of nothing": '{"Records": [null, {}, {"s3": 5}]}',
    "not about a model": notification("incoming/readme.txt", "BUCKET"),
    "another bucket": notification("incoming/digits/9/ready.json", "another"),
    "a name that climbs": notification("incoming/../9/ready.json", "BUCKET"),
    "upper case": notification("incoming/Digits/9/ready.json", "BUCKET"),
    "no number": notification("incoming/digits/nine/ready.json", "BUCKET"),
    "removed": notification("incoming/digits/9/ready.json", "BUCKET", event="ObjectRemoved:Delete"),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_bad_message_is_named_and_harms_no_other(store: ModelStoreHook, body: str) -> None:
    """A message that is malformed or about something else is named in the log; the one beside it counts."""
    good = notification(land(store, 2), store.bucket)
    started, warnings = found_and_warned(store, context(body.replace("BUCKET", store.bucket), good))
    assert started == [("digits-2", EVENT)]
    assert len(warnings) > 0
    assert all(warning.startswith("ignored: ") for warning in warnings)


def test_test_event_of_s3_is_quiet(store: ModelStoreHook) -> None:
    """What S3 sends when notifications are set up is neither a version nor worth a word."""
    body = '{"Service": "Amazon S3", "Event": "s3:TestEvent"}'
    assert found_and_warned(store, context(body)) == ([], [])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"{", "ready.json"),
        (b'{"model": "digits", "version": 9}', "another version"),
        (b'{"model": "digits", "version": 3, "frame_work": "x"}', "framework"),
    ],
    ids=["not JSON", "about another version", "a typo in a key"],
)
def test_bad_ready_file_is_named_and_harms_no_other(store: ModelStoreHook, content: bytes, word: str) -> None:
    """A ready.json that cannot be used is named in the log with what is wrong; other versions start."""
    land(store, 2)
    store.write("incoming/digits/3/ready.json", content)
    started, (warning,) = found_and_warned(store, context())
    assert started == [("digits-2", SWEEP)]
    assert "incoming/digits/3/ready.json" in warning
    assert word in warning


def test_stray_folders_in_incoming_are_named(store: ModelStoreHook) -> None:
    """A ready.json at a place that is none of a version's does not stop the sweep."""
    land(store, 2)
    store.write("incoming/Digits/3/ready.json", b"{}")
    store.write("incoming/digits/deeper/3/ready.json", b"{}")
    started, warnings = found_and_warned(store, context())
    assert started == [("digits-2", SWEEP)]
    assert len(warnings) == 2


def test_unreachable_store_is_tried_again(cut_off_store: ModelStoreHook) -> None:
    """Without the store nothing is concluded: the task fails in a way that Airflow tries again."""
    with pytest.raises(StoreUnavailableError):
        FindNewVersionsOperator(task_id="find", bucket=cut_off_store.bucket).execute(context())
