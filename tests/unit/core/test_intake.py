"""Events from S3, ready.json, and the sweep."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import InputMissingError, ModelInvalidError, UserError
from slipway_core.intake import (
    IncomingVersion,
    ReadyFile,
    message_bodies,
    parse_incoming_key,
    parse_messages,
    parse_ready,
    parse_s3_event,
    require_files,
    require_untouched,
)

_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
_VERSIONS = st.builds(IncomingVersion, _NAMES, st.integers(1, 50))
_DIGITS_2 = IncomingVersion("digits", 2)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["Records", "s3", "object", "key", "eventName"]), below, max_size=3)
    ),
    max_leaves=10,
)


def _record(key: str, *, event: str = "ObjectCreated:Put", bucket: str = "slipway") -> dict[str, Any]:
    return {"eventName": event, "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}


def _event(*records: Any) -> str:
    return json.dumps({"Records": list(records)})


def test_a_ready_file_announces_its_version() -> None:
    """The arrival of incoming/digits/2/ready.json is version 2 of digits."""
    result = parse_s3_event(_event(_record("incoming/digits/2/ready.json")), "slipway")
    assert result.versions == [_DIGITS_2]
    assert result.ignored == []


def test_keys_are_url_quoted() -> None:
    """S3 quotes keys in events: a quoted key is read as the key it stands for."""
    result = parse_s3_event(_event(_record("incoming%2Fdigits%2F2%2Fready.json"), _record("my+file%21")))
    assert result.versions == [_DIGITS_2]
    assert "'my file!'" in result.ignored[0]


def test_the_test_event_of_s3_is_nothing() -> None:
    """The event that S3 sends when a notification is set up gives no version and no complaint."""
    assert (
        parse_s3_event('{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "slipway"}').ignored == []
    )


def test_the_same_version_twice_in_an_event_is_one() -> None:
    """A version that is announced twice is returned once."""
    record = _record("incoming/digits/2/ready.json")
    assert parse_s3_event(_event(record, record)).versions == [_DIGITS_2]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (_record("incoming/digits/2/model.onnx"), "announces no model version"),
        (_record("models/digits/2/ready.json"), "announces no model version"),
        (_record("incoming/digits/2/sub/ready.json"), "announces no model version"),
        (_record("incoming/Digits/2/ready.json"), "not a model name"),
        (_record("incoming/../2/ready.json"), "not a model name"),
        (_record("incoming/digits/02/ready.json"), "not a model version"),
        (_record("incoming/digits/2/ready.json", event="ObjectRemoved:Delete"), "not the arrival"),
        (_record("incoming/digits/2/ready.json", bucket="other"), "another bucket"),
        ({"eventName": "ObjectCreated:Put", "s3": {"object": {"key": 3}}}, "no object key"),
        ({"eventName": "ObjectCreated:Put"}, "no object key"),
        ("text", "not an object"),
        (None, "not an object"),
    ],
)
def test_a_record_about_something_else_does_not_hide_the_others(record: Any, reason: str) -> None:
    """What is not about a model version is set aside with its reason; the record beside it still counts."""
    result = parse_s3_event(_event(record, _record("incoming/digits/2/ready.json")), "slipway")
    assert result.versions == [_DIGITS_2]
    assert reason in result.ignored[0]


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "3", '{"a": 1}', '{"Records": {}}', "[" * 100_000, "x" * 2_000_000]
)
def test_a_malformed_body_is_a_user_error(body: str) -> None:
    """A body that is no S3 event is refused with what was found."""
    with pytest.raises(UserError, match="not an S3 event notification"):
        parse_s3_event(body)


def test_a_malformed_message_does_not_hide_the_others() -> None:
    """In a batch, a malformed message becomes a reason and the versions of the others are kept, each once."""
    good = _event(_record("incoming/digits/2/ready.json"))
    result = parse_messages([good, "{", good, _event(_record("x"))])
    assert result.versions == [_DIGITS_2]
    assert len(result.ignored) == 2


@given(_JSON)
def test_any_json_gives_a_result_or_a_user_error(value: Any) -> None:
    """No message, however strange, makes the intake fail in another way."""
    result = parse_messages([json.dumps(value), json.dumps({"Records": [value]})])
    assert result.versions == []


@given(st.lists(_VERSIONS, max_size=6))
def test_every_announced_version_is_found(versions: list[IncomingVersion]) -> None:
    """All versions of an event come out, in order, each once."""
    keys = [quote_plus(f"incoming/{version.model}/{version.version}/ready.json") for version in versions]
    result = parse_s3_event(_event(*(_record(key) for key in keys)))
    assert result.versions == list(dict.fromkeys(versions))


@given(st.text(max_size=40))
def test_a_key_is_a_version_or_a_user_error(key: str) -> None:
    """No key makes the reader fail in another way than by a UserError."""
    try:
        version = parse_incoming_key(key)
    except UserError:
        return
    assert key == f"incoming/{version.model}/{version.version}/ready.json"


def test_ready_json_is_read() -> None:
    """ready.json tells dataset, accuracy and time, and starts a release unless it says otherwise."""
    content = {"model": "digits", "version": 2, "accuracy": 0.97, "trained_at": "2026-11-20T10:00:00+02:00"}
    ready = parse_ready(json.dumps(content).encode(), _DIGITS_2)
    assert ready.start == "automatic"
    assert ready.trained_at is not None
    assert ready.trained_at.isoformat() == "2026-11-20T08:00:00+00:00"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 3}, "is about another version"),
        ({"model": "cats"}, "is about another version"),
        ({"version": "2"}, "at `version`"),
        ({"version": True}, "at `version`"),
        ({"accuracy": 97}, "at `accuracy`"),
        ({"trained_at": "2026-11-20T10:00:00"}, "at `trained_at`"),
        ({"strat": "by_hand"}, "unknown key `strat`.*Did you mean `start`"),
        ({"zzz": 1}, "under `metadata`"),
        ({"files": {"../x": "0" * 64}}, "relative path"),
        ({"files": {"model.onnx": "abc"}}, "64 lower-case"),
    ],
)
def test_a_wrong_ready_json_is_refused(changes: dict[str, Any], words: str) -> None:
    """A version that is not the folder's, wrong types and unknown keys are refused, naming file and key."""
    content = json.dumps({"model": "digits", "version": 2} | changes).encode()
    with pytest.raises(UserError, match=words) as caught:
        parse_ready(content, _DIGITS_2)
    assert "incoming/digits/2/ready.json" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"null"])
def test_a_broken_ready_json_is_refused(content: bytes) -> None:
    """A ready.json that is empty, cut short or no object is refused."""
    with pytest.raises(UserError, match=r"ready\.json (is not valid|cannot be read)"):
        parse_ready(content, _DIGITS_2)


_HOSTILE = {
    "an offset before the first year": b'"trained_at": "0001-01-01T00:00:00+23:59"',
    "an offset after the last year": b'"trained_at": "9999-12-31T23:59:59-23:59"',
    "a time of many digits": b'"trained_at": ' + b"9" * 300,
    "a number of many digits": b'"metadata": {"a": ' + b"9" * 20_000 + b"}",
    "NaN": b'"metadata": {"a": {"b": [1, NaN]}}',
    "infinity": b'"metadata": {"a": -Infinity}',
    "deep nesting": b'"metadata": {"a": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    "a lone surrogate": b'"framework": "\\ud800"',
    "bytes that are no text": b'"framework": "\xff"',
    "a huge key": b'"' + b"k" * 500_000 + b'": 1',
    "a huge file name": b'"files": {"' + b"f" * 500_000 + b'": "x"}',
    "more than a ready.json may hold": b'"framework": "' + b"x" * 2**20 + b'"',
}


@pytest.mark.parametrize("described", _HOSTILE.values(), ids=_HOSTILE)
def test_a_hostile_ready_json_is_refused_briefly(described: bytes) -> None:
    """Whatever a ready.json holds, it is read or refused by a UserError, whose message fits into a log."""
    with pytest.raises(UserError, match=r"incoming/digits/2/ready\.json") as caught:
        parse_ready(b'{"model": "digits", "version": 2, ' + described + b"}", _DIGITS_2)
    assert len(str(caught.value)) < 600


@given(st.binary(max_size=60))
def test_any_bytes_give_a_ready_file_or_a_user_error(content: bytes) -> None:
    """No content of a ready.json makes the intake fail in another way."""
    for whole in (content, b'{"model": "digits", "version": 2, "trained_at": "' + content + b'"}'):
        try:
            assert parse_ready(whole, _DIGITS_2).model == "digits"
        except UserError:
            continue


def test_lists_in_messages_are_short() -> None:
    """Of thousands of files that are missing some are named and the others counted."""
    ready = ReadyFile(model="digits", version=2, files={f"f{n}": "0" * 64 for n in range(5000)})
    with pytest.raises(InputMissingError, match="and 4980 more") as caught:
        require_files(ready, [], [])
    assert len(str(caught.value)) < 1000


def test_a_message_with_thousands_of_records_is_cut() -> None:
    """Of a message that no S3 has sent some records are read; that there were more is told."""
    result = parse_messages([_event(*[_record(f"incoming/m{n}/1/ready.json") for n in range(1500)])])
    assert (len(result.versions), result.is_whole) == (1000, False)
    assert "500 records" in result.ignored[0]


@given(_JSON)
def test_any_asset_event_gives_bodies_or_none(extra: Any) -> None:
    """Whatever Airflow keeps with an asset event, its messages are found or there are none."""
    assert all(isinstance(body, str) for body in message_bodies({"payload": extra}))
    assert list(message_bodies(extra)) == []
    assert list(message_bodies({"payload": {"message_batch": [extra, {"Body": "x"}]}}))[-1:] == ["x"]


def test_missing_files_are_named() -> None:
    """Files that the release file or ready.json asks for and that are not there are named."""
    ready = ReadyFile(model="digits", version=2, files={"labels.txt": "0" * 64})
    require_files(ready, ["model.onnx", "labels.txt", "ready.json"], ["model.onnx"])
    with pytest.raises(InputMissingError, match=r"lacks golden\.npz, labels\.txt"):
        require_files(ready, ["model.onnx"], ["model.onnx", "golden.npz"])


def test_a_file_that_changed_after_ready_json_is_named() -> None:
    """What ready.json gives a SHA-256 for must still have it; the error names the file and both sums."""
    ready = ReadyFile(model="digits", version=3, files={"model.onnx": "a" * 64})
    require_untouched(ready, {"model.onnx": "a" * 64, "golden.npz": "c" * 64})
    with pytest.raises(ModelInvalidError, match=r"model\.onnx is not what training wrote") as caught:
        require_untouched(ready, {"model.onnx": "b" * 64})
    assert "b" * 64 in str(caught.value)
