"""A segment: copies of 500 events in one object, by which a long record is read with few requests.

    records/MODEL/VERSION/segments/000001-000500.jsonl.gz

Each line is {"name": the last part of the event's key, "etag": its object's entity tag, "content": its bytes as text}.
The single events decide. A copy is used for an event only while the store lists its key with the same entity tag; where
entity tags are the MD5 of the content, the copy's own MD5 must be the same too.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from slipway_core.errors import UserError

SEGMENT_EVENTS = 500
SEGMENT_FOLDER = "segments/"
# What a segment may have, packed and unpacked; one of more is neither written nor read.
PACKED_LIMIT_BYTES, UNPACKED_LIMIT_BYTES = 8 << 20, 32 << 20
_NAME = re.compile(r"segments/(?P<first>[0-9]{6,9})-(?P<last>[0-9]{6,9})\.jsonl\.gz")
_GZIP = 16 + zlib.MAX_WBITS


class SegmentError(UserError):
    """A segment cannot be used; the record is read without it."""


@dataclass(frozen=True)
class StoredEvent:
    """An event as it lies in the store: the entity tag of its object, and its bytes."""

    etag: str
    content: bytes

    @property
    def is_tagged_with_md5(self) -> bool:
        """Whether the entity tag is the MD5 of the content, as it is unless the store encrypts with a key of KMS."""
        return hashlib.md5(self.content, usedforsecurity=False).hexdigest() == self.etag.strip('"')


def block_of(seq: int) -> int:
    """Return which block of events number `seq` is in, from 0."""
    return (seq - 1) // SEGMENT_EVENTS


def numbers_of(block: int) -> range:
    """Return the numbers of the events of a block."""
    first = block * SEGMENT_EVENTS + 1
    return range(first, first + SEGMENT_EVENTS)


def segment_name(block: int) -> str:
    """Return the key of a block's segment, below the record's own prefix."""
    numbers = numbers_of(block)
    return f"{SEGMENT_FOLDER}{numbers[0]:06d}-{numbers[-1]:06d}.jsonl.gz"


def parse_segment_name(name: str) -> int | None:
    """Return the block whose segment has this key below the record's prefix; None if no block has."""
    match = _NAME.fullmatch(name)
    if match is None or int(match["first"]) == 0:
        return None
    block = block_of(int(match["first"]))
    return block if segment_name(block) == name else None


def pack_segment(events: Mapping[str, StoredEvent]) -> bytes:
    """Return the object that holds these events.

    :param events: by the last part of their keys.
    :raises SegmentError: it would be too large, or an event is not text.
    """
    try:
        lines = [
            json.dumps({"name": name, "etag": stored.etag, "content": stored.content.decode()})
            for name, stored in sorted(events.items())
        ]
    except UnicodeDecodeError as error:
        raise SegmentError("an event is not text", expected="UTF-8", found=str(error)) from error
    content = "\n".join(lines).encode()
    if len(content) > UNPACKED_LIMIT_BYTES:
        raise _too_large(f"{len(content)} bytes")
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    packed = packer.compress(content) + packer.flush()
    if len(packed) > PACKED_LIMIT_BYTES:
        raise _too_large(f"{len(packed)} bytes, packed")
    return packed


def unpack_segment(packed: bytes) -> dict[str, StoredEvent]:
    """Return the events that `pack_segment` has packed, by the last part of their keys.

    :raises SegmentError: it is something else, or would unpack to more than `UNPACKED_LIMIT_BYTES`.
    """
    if len(packed) > PACKED_LIMIT_BYTES:
        raise _too_large(f"{len(packed)} bytes, packed")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(packed, UNPACKED_LIMIT_BYTES)
        if unpacker.unconsumed_tail:
            raise _too_large(f"more than {UNPACKED_LIMIT_BYTES} bytes, unpacked")
        if not unpacker.eof:
            raise _damaged("it breaks off")
        return dict(_event_in(line) for line in content.split(b"\n"))
    except (zlib.error, ValueError, RecursionError) as error:
        raise _damaged(str(error)) from error


def _event_in(line: bytes) -> tuple[str, StoredEvent]:
    document = json.loads(line)
    match document:
        case {"name": str(name), "etag": str(etag), "content": str(content)}:
            return name, StoredEvent(etag, content.encode())
        case _:
            raise _damaged("a line without name, etag and content")


def _damaged(found: str) -> SegmentError:
    return SegmentError(
        "a segment is not what was written", expected="packed lines of events", found=found[:200]
    )


def _too_large(found: str) -> SegmentError:
    return SegmentError(
        "a segment is too large",
        expected=f"at most {PACKED_LIMIT_BYTES} bytes packed and {UNPACKED_LIMIT_BYTES} bytes unpacked",
        found=found,
    )
