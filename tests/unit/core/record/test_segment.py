"""Segments of a record: what is packed comes back, and nothing else is taken for one."""

from __future__ import annotations

import gzip
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.record.segment import (
    PACKED_LIMIT_BYTES,
    SEGMENT_EVENTS,
    UNPACKED_LIMIT_BYTES,
    SegmentError,
    StoredEvent,
    block_of,
    numbers_of,
    pack_segment,
    parse_segment_name,
    segment_name,
    unpack_segment,
)

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_STORED = st.builds(StoredEvent, _TEXTS, _TEXTS.map(str.encode))
_EVENT = StoredEvent("tag", b"{}")


@given(st.dictionaries(_TEXTS, _STORED, min_size=1, max_size=5))
def test_what_is_packed_comes_back(events: dict[str, StoredEvent]) -> None:
    """Names, entity tags and contents survive, line breaks and all, and the same events give the same bytes."""
    assert unpack_segment(pack_segment(events)) == events
    assert pack_segment(events) == pack_segment(dict(reversed(events.items())))


@given(st.binary(max_size=200))
def test_no_bytes_lead_to_another_error(content: bytes) -> None:
    """Whatever lies there, packed or not, is a segment or a SegmentError."""
    for packed in (content, gzip.compress(content), pack_segment({"a": _EVENT})[: len(content)]):
        with pytest.raises(SegmentError):
            unpack_segment(packed)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"name": "a", "etag": "b"}',
        b'{"name": 1, "etag": "b", "content": "c"}',
        b"[" * 9999,
    ],
)
def test_a_line_that_is_no_event_is_an_error(line: bytes) -> None:
    """One line that lacks a field, or has one of another type, and nothing of the segment is used."""
    whole = json.dumps({"name": "a", "etag": "b", "content": "c"}).encode()
    with pytest.raises(SegmentError):
        unpack_segment(gzip.compress(whole + b"\n" + line))


def test_what_unpacks_without_end_is_not_unpacked() -> None:
    """A small object that stands for a gigabyte is refused at the limit."""
    bomb = gzip.compress(bytes(UNPACKED_LIMIT_BYTES + 1), 9)
    assert len(bomb) < UNPACKED_LIMIT_BYTES // 500
    with pytest.raises(SegmentError, match="too large"):
        unpack_segment(bomb)
    with pytest.raises(SegmentError, match="too large"):
        unpack_segment(bytes(PACKED_LIMIT_BYTES + 1))


@pytest.mark.parametrize(
    "content", [bytes(1) * (UNPACKED_LIMIT_BYTES + 1), b"\xff"], ids=["large", "no text"]
)
def test_what_could_not_be_read_is_not_written(content: bytes) -> None:
    """Events that are no text, or too much of it, have no segment."""
    with pytest.raises(SegmentError):
        pack_segment({"a": StoredEvent("b", content)})


@given(st.integers(1, 999_999_999))
def test_each_number_is_in_one_block(seq: int) -> None:
    """A block has 500 numbers, knows its own, and its segment's name says which."""
    block = block_of(seq)
    assert seq in numbers_of(block)
    assert len(numbers_of(block)) == SEGMENT_EVENTS
    if numbers_of(block)[-1] <= 999_999_999:
        assert parse_segment_name(segment_name(block)) == block


def test_names_that_are_no_segments() -> None:
    """Only a whole block in the one spelling is a segment's name."""
    assert segment_name(1) == "segments/000501-001000.jsonl.gz"
    for name in (
        "segments/000000-000499.jsonl.gz",
        "segments/000002-000501.jsonl.gz",
        "segments/000001-000501.jsonl.gz",
        "segments/0000001-000500.jsonl.gz",
        "segments/000001-000500.json",
        "segments/",
        "000001-release_started.json",
    ):
        assert parse_segment_name(name) is None, name


def test_an_entity_tag_is_known_as_a_digest() -> None:
    """The tag is the MD5 of the content with plain and S3-managed encryption, quoted as S3 quotes it."""
    digest = hashlib.md5(b"{}", usedforsecurity=False).hexdigest()
    assert StoredEvent(f'"{digest}"', b"{}").is_tagged_with_md5
    assert not StoredEvent(f'"{digest}"', b"{ }").is_tagged_with_md5
    assert not StoredEvent('"d41d8cd98f00b204e9800998ecf8427e-2"', b"").is_tagged_with_md5
