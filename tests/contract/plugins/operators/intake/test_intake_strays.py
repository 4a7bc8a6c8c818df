"""FindNewVersionsOperator where the bucket, the queue or Airflow's state hold what nobody should have put there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slipway.failures import UNREADABLE_KEY
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import StoreUnavailableError
from slipway_core.record.arrivals import Upload
from tests.support.release.intake_steps import (
    EVENT,
    SWEEP,
    Run,
    State,
    found,
    land,
    notification,
    was_started,
)

READY = "incoming/digits/3/ready.json"
# The model's name is put in place of MODEL.
_DESCRIBED = b'{"model": "MODEL", "version": 3, '
BAD_READY_FILES = {
    "not JSON": (b"{", "ready.json"),
    "empty": (b"", "ready.json"),
    "about another version": (b'{"model": "MODEL", "version": 9}', "another version"),
    "a typo in a key": (_DESCRIBED + b'"frame_work": "x"}', "framework"),
    "not UTF-8": (_DESCRIBED + b'"framework": "\xff\xfe"}', "ready.json"),
    "a lone surrogate": (_DESCRIBED + b'"framework": "\\ud800"}', "ready.json"),
    "an offset that leaves the calendar": (
        _DESCRIBED + b'"trained_at": "0001-01-01T00:00:00+23:59"}',
        "trained_at",
    ),
    "a number of many digits": (_DESCRIBED + b'"metadata": {"a": ' + b"9" * 20_000 + b"}}", "ready.json"),
    "deep nesting": (
        _DESCRIBED + b'"metadata": {"a": ' + b"[" * 90_000 + b"]" * 90_000 + b"}}",
        "ready.json",
    ),
    "NaN": (_DESCRIBED + b'"metadata": {"a": [NaN]}}', "finite"),
    "a huge name": (b'{"version": 3, "model": "' + b"x" * 500_000 + b'"}', "another version"),
    "a huge key": (_DESCRIBED + b'"' + b"k" * 500_000 + b'": 1}', "unknown key"),
    "huge": (_DESCRIBED + b'"framework": "' + b"x" * 2**20 + b'"}', "is too large"),
}


@pytest.mark.parametrize("is_told", [True, False], ids=["by their events", "by the sweep"])
def test_bad_ready_files_are_named_and_harm_no_other(store: ModelStoreHook, is_told: bool) -> None:
    """Each ready.json that cannot be used is named in the log and on the run, briefly; what lies beside it starts."""
    keys = []
    for number, (content, _) in enumerate(BAD_READY_FILES.values()):
        keys += [land(store, 2, f"m{number:02}"), f"incoming/m{number:02}/3/ready.json"]
        store.write(keys[-1], content.replace(b"MODEL", f"m{number:02}".encode()))
    run = Run([notification(key, store.bucket) for key in keys] if is_told else [])
    reason = EVENT if is_told else SWEEP
    assert found(store, run) == [(f"m{number:02}-2", reason) for number in range(len(BAD_READY_FILES))]
    assert len(run.set_aside) == len(BAD_READY_FILES)
    for number, (_, word) in enumerate(BAD_READY_FILES.values()):
        (named,) = [each for each in run.set_aside if f"incoming/m{number:02}/3/ready.json" in each]
        assert word in named
        assert len(named) < 1000


STRAYS = {
    "incoming/README.md": "incoming/README.md",
    "incoming/Digits/3/ready.json": "incoming/Digits/",
    "incoming//3/ready.json": "incoming//",
    "incoming/../3/ready.json": "incoming/../",
    "incoming/digits/README.md": "incoming/digits/README.md",
    "incoming/digits/deeper/3/ready.json": "incoming/digits/deeper/",
    "incoming/digits/03/ready.json": "incoming/digits/03/",
    f"incoming/digits/{'9' * 900}/ready.json": f"incoming/digits/{'9' * 300}",
    "incoming/digits//ready.json": "incoming/digits//",
    "records/digits/notes/1.txt": "records/digits/notes/",
    f"records/digits/{'9' * 900}/000001-release_started.json": f"records/digits/{'9' * 300}",
    "records/digits/3/README.md": "records/digits/3/README.md",
    "records/digits/2/release_started.json": "records/digits/2/release_started.json",
}
"""Objects at places that are none of a version's, and as what each is named."""


def test_stray_objects_are_named_and_harm_nothing(store: ModelStoreHook) -> None:
    """What lies at a place that is none of a version's is named in the log and on the run, and stops nothing."""
    land(store, 2)
    land(store, 1, model="magika")
    was_started(store, 1)
    for key in STRAYS:
        store.write(key, b"{}")
    run = Run()
    assert found(store, run) == [("digits-2", SWEEP), ("magika-1", SWEEP)]
    assert [name for name in STRAYS.values() if not any(name in each for each in run.set_aside)] == []
    assert len(run.set_aside) == len(STRAYS)


def test_object_that_stands_for_a_folder_is_nothing(store: ModelStoreHook) -> None:
    """What S3's console makes for a new folder, and what lies beside all records, is passed over."""
    land(store, 2)
    was_started(store, 1)
    for key in ("incoming/", "incoming/digits/", "records/", "records/digits/", "records/README"):
        store.write(key, b"")
    run = Run()
    assert found(store, run) == [("digits-2", SWEEP)]
    assert run.set_aside == []


def test_number_of_strays_is_told_and_their_list_is_short(store: ModelStoreHook) -> None:
    """Of many strays some are named and the others counted."""
    land(store, 2)
    for number in range(70):
        store.write(f"incoming/digits/note {number:02}", b"")
    run = Run()
    assert found(store, run) == [("digits-2", SWEEP)]
    assert len(run.set_aside) == 51
    assert run.set_aside[-1] == "and 20 more"


def test_unreadable_object_harms_no_other(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ready.json that the store refuses to hand out, in an archive for example, is named; the others start."""
    land(store, 2)
    land(store, 3)
    fetch = ModelStoreHook.fetch

    def refuse(hook: ModelStoreHook, key: str, **options: Any) -> Any:
        if key == READY:
            raise StoreUnavailableError(f"the object store refused a request about {key}")
        return fetch(hook, key, **options)

    monkeypatch.setattr(ModelStoreHook, "fetch", refuse)
    run = Run()
    assert found(store, run) == [("digits-2", SWEEP)]
    assert READY in run.set_aside[0]


def test_model_that_cannot_be_judged_harms_no_other(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with one model, even what nobody has thought of, the others start and it is named."""
    land(store, 2)
    land(store, 1, model="magika")
    listing = ModelStoreHook.listing

    def fail(hook: ModelStoreHook, prefix: str, **options: Any) -> Any:
        if prefix.startswith("incoming/digits/"):
            raise ZeroDivisionError("nobody has thought of this")
        return listing(hook, prefix, **options)

    monkeypatch.setattr(ModelStoreHook, "listing", fail)
    run = Run()
    assert found(store, run) == [("magika-1", SWEEP)]
    assert run.set_aside == ["digits: nobody has thought of this"]


BAD_BODIES = {
    "not JSON": "{",
    "empty": "",
    "no records": '{"Service": "else"}',
    "a list": "[]",
    "deep nesting": "[" * 100_000,
    "a number of many digits": '{"Records": ' + "9" * 20_000 + "}",
    "records of nothing": '{"Records": [null, {}, {"s3": 5}]}',
    "not about a model": notification("incoming/readme.txt", "BUCKET"),
    "another bucket": notification("incoming/digits/9/ready.json", "another"),
    "a name that climbs": notification("incoming/../9/ready.json", "BUCKET"),
    "upper case": notification("incoming/Digits/9/ready.json", "BUCKET"),
    "no number": notification("incoming/digits/nine/ready.json", "BUCKET"),
    "a lone surrogate": notification("incoming/digits/9/ready.json", "BUCKET").replace("digits", "\\ud800"),
    "removed": notification("incoming/digits/9/ready.json", "BUCKET", event="ObjectRemoved:Delete"),
}


def test_bad_messages_are_named_and_harm_no_other(store: ModelStoreHook) -> None:
    """Messages that are malformed or about something else are named; the one among them that is good counts."""
    good = notification(land(store, 2), store.bucket)
    run = Run([*(body.replace("BUCKET", store.bucket) for body in BAD_BODIES.values()), good])
    assert found(store, run) == [("digits-2", EVENT)]
    assert len(run.set_aside) == len(BAD_BODIES) + 2, "one of them holds three bad records"


def test_test_event_of_s3_is_quiet(store: ModelStoreHook) -> None:
    """What S3 sends when notifications are set up is neither a version nor worth a word."""
    run = Run(['{"Service": "Amazon S3", "Event": "s3:TestEvent"}'])
    assert found(store, run) == []
    assert run.set_aside == []


@pytest.mark.parametrize(
    "extra", [{"from_rest_api": True}, {"payload": {"message_batch": [5, {"Body": {}}]}}]
)
def test_asset_event_of_another_form_starts_a_sweep(store: ModelStoreHook, extra: Any) -> None:
    """An asset event that holds no messages, such as one that a person makes in Airflow, is a reason to sweep."""
    land(store, 2)
    assert found(store, Run(extra=extra)) == [("digits-2", SWEEP)]


@pytest.mark.parametrize(
    "body",
    ["incoming/digits/2/ready.json", '{"Records": [{"s3": 5}]}', '{"Type": "Notification", "Message": "?"}'],
    ids=["a text", "one record", "SNS of a text"],
)
def test_message_that_cannot_be_read_starts_a_sweep(store: ModelStoreHook, body: str) -> None:
    """It may have told of any version: what has landed starts at once, and the run says what could not be read."""
    key = land(store, 2)
    land(store, 1, model="magika")
    run = Run([body, notification(key, store.bucket)])
    assert found(store, run) == [("digits-2", EVENT), ("magika-1", SWEEP)]
    unreadable = run.xcoms[UNREADABLE_KEY]
    assert unreadable["number"] == 1
    assert unreadable["reasons"][0] in run.set_aside


def test_messages_that_can_be_read_warn_of_nothing(store: ModelStoreHook) -> None:
    """An event about something else is named on its run; it is no reason to sweep, and no warning for pages."""
    land(store, 1, model="magika")
    run = Run([notification("incoming/readme.txt", store.bucket)])
    assert found(store, run) == []
    assert UNREADABLE_KEY not in run.xcoms


@pytest.mark.parametrize("is_told", [True, False], ids=["by its event", "by the sweep"])
def test_version_of_a_model_without_release_file(
    store: ModelStoreHook, tmp_path: Path, is_told: bool
) -> None:
    """An event's start is tried until the file is there; a sweep names what waits for one."""
    (tmp_path / "magika.yaml").touch()
    key = land(store, 2)
    land(store, 1, model="magika")
    run = Run([notification(key, store.bucket)] if is_told else [])
    started = [each["conf"]["model"] for each in run.execute(store, releases_dir=str(tmp_path))]
    assert started == (["digits"] if is_told else ["magika"])
    assert ["digits.yaml" in reason for reason in run.set_aside] == ([] if is_told else [True])


def test_messages_about_many_models_start_a_sweep(store: ModelStoreHook) -> None:
    """Messages that name more models than are looked up one by one cost a sweep, and no request for each name."""
    good = land(store, 2)
    records = [
        json.loads(notification(f"incoming/m{n}/1/ready.json", store.bucket))["Records"][0]
        for n in range(900)
    ]
    run = Run([json.dumps({"Records": records}), notification(good, store.bucket)])
    assert found(store, run) == [("digits-2", EVENT)]


KEPT = "ready_files_that_start_nothing"
HOSTILE_STATES: dict[str, Any] = {
    "lost": None,
    "text": "x" * 100_000,
    "a list": [["digits/2", 1]],
    "entries of other forms": {
        "digits/2": 5,
        "digits/3": [],
        "": ["a", 1, None],
        "x/y/z": ["a", "b", "c"],
        "a/1": None,
    },
    "a number of many digits": {"digits/2": ["a", 10**4000, None]},
    "a verdict on another upload": {"digits/2": ["0" * 32, int(time.time()), None]},
}


@pytest.mark.parametrize("value", HOSTILE_STATES.values(), ids=HOSTILE_STATES)
def test_lost_or_hostile_state_changes_no_result(store: ModelStoreHook, value: Any) -> None:
    """Whatever Airflow's state store holds, or if it holds nothing, the same versions start."""
    land(store, 2)
    land(store, 3, start="by_hand")
    run = Run(state=State({} if value is None else {KEPT: value}))
    assert found(store, run) == [("digits-2", SWEEP)]
    assert list(run.state[KEPT]) == ["digits/3"]


@pytest.mark.parametrize("age_s", [5 * 3600, -3600], ids=["old", "from the future"])
def test_verdict_is_believed_for_hours_only(store: ModelStoreHook, age_s: int) -> None:
    """A verdict of the state store that claims a version to be by hand, be it a lie, ends after some hours."""
    land(store, 2)
    lie = State({KEPT: {"digits/2": [_digest(store), int(time.time()) - age_s, None]}})
    assert found(store, Run(state=lie)) == [("digits-2", SWEEP)]


def test_verdict_says_nothing_against_an_event(store: ModelStoreHook) -> None:
    """A version that an event tells of is read, whatever the state store says of it."""
    key = land(store, 2)
    lie = State({KEPT: {"digits/2": [_digest(store), int(time.time()), "broken"]}})
    assert found(store, Run(state=lie)) == []
    assert found(store, Run([notification(key, store.bucket)], state=lie)) == [("digits-2", EVENT)]


def test_state_store_that_fails_is_no_obstacle(store: ModelStoreHook) -> None:
    """Where Airflow gives the task no state store, every ready.json is read."""

    class Broken(State):
        def get(self, *_: Any) -> Any:
            raise KeyError("there is none")

        def set(self, key: str, value: Any) -> None:
            raise KeyError("there is none")

    land(store, 2)
    land(store, 3, start="by_hand")
    assert found(store, Run(state=Broken())) == [("digits-2", SWEEP)]


def _digest(store: ModelStoreHook) -> str:
    """The digest under which the present upload of version 2 is known."""
    (entry,) = store.entries("incoming/digits/2/ready.json")
    return Upload(entry.etag, entry.written_at).digest


@pytest.mark.parametrize("name", ["Ready.json", "ready.json.txt", "READY.JSON", "3/ready.json"])
def test_a_near_name_of_the_marker_is_named(store: ModelStoreHook, name: str) -> None:
    """S3 tells nobody of it, and no event has it: the sweep says what was meant; what lies beside it starts."""
    land(store, 2, "near")
    store.write(f"incoming/near/3/{name}", b"{}")
    run = Run()
    assert found(store, run) == [("near-2", SWEEP)]
    assert any(f"incoming/near/3/{name} announces no version" in told for told in run.set_aside)
