"""Read a record: each event once, many at a time, and blocks of 500 events from their segments."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import InputMissingError, SlipwayError
from slipway_core.record.events import Event, RecordError, event_key, parse_event_key
from slipway_core.record.segment import (
    PACKED_LIMIT_BYTES,
    SEGMENT_FOLDER,
    SegmentError,
    StoredEvent,
    block_of,
    numbers_of,
    pack_segment,
    parse_segment_name,
    segment_name,
    unpack_segment,
)
from slipway_core.written_numbers import counted

log = logging.getLogger(__name__)

EVENT_LIMIT_BYTES = 4 << 20
RECORD_LIMIT_BYTES = 512 << 20
# Fewer than the connections that the store's client keeps. A segment is unpacked in memory, so only some at once.
_READERS, _SEGMENT_READERS = 24, 4
_PAGE = 1000
# With the segments, one page.
_LISTED_AGAIN = 900
# Up to this number keys sort as their numbers do.
_SORTED_LIMIT = 999_999
_SHOWN = 5


@dataclass(frozen=True)
class Listed:
    """An event's key, split, with what the listing says of its object."""

    seq: int
    kind: str
    entry: StoredObject

    @property
    def key(self) -> str:
        """The key of the object."""
        return self.entry.key


class RecordReader:
    """The events of one version as they lie in the store; what was read once is not read again.

    What lies beside the events is skipped and named in the log, once. A segment (`record/segment.py`) saves requests
    where it agrees with the listing; where it does not, the log names it. A reader that finds a full block without a
    segment writes one.
    """

    def __init__(self, store: ModelStoreHook, model: str, version: int) -> None:
        self._store = store
        self._model, self._version = model, version
        self._prefix = f"records/{model}/{version}/"
        self._listed: dict[str, Listed] = {}
        self._events: dict[str, tuple[str, Event]] = {}
        self._segments: set[int] = set()
        self._named: set[str] = set()

    def events(self) -> list[Event]:
        """Return every event, in order.

        A later call lists the last 900 again, and what came after them: a writer that was held up may add an event
        below the last one.

        :raises RecordError: an event cannot be read or is not what its key says, or they are too large.
        """
        self._list()
        known = self._events
        new = [one for key, one in self._listed.items() if known.get(key, ("",))[0] != one.entry.etag]
        stored = self._stored(new)
        for one in new:
            read = stored[one.key]
            known[one.key] = (read.etag, Event.stored(read.content, one.key))
        self._write_missing_segments(stored)
        ordered = sorted(self._listed.values(), key=lambda one: (one.seq, one.kind))
        return [known[one.key][1] for one in ordered]

    def started(self) -> bool:
        """Return whether there is any event. An object that stands for the folder is not one, nor is another stray."""
        # Events' keys begin with a digit; what sorts before the digits need not be looked at. After two slashes
        # SeaweedFS lists keys that do not exist.
        after, most = f"{self._prefix}.~", 1
        while entries := self._store.entries(self._prefix, after=after, most=most):
            if any(True for _ in self._events_among(entries)):
                return True
            after, most = entries[-1].key, _PAGE
        return False

    def last_seq(self) -> int:
        """Return the highest number that an event has; 0 where there is none. With segments it lists three pages."""
        entries = self._store.entries(self._prefix, after=self._prefix, most=_PAGE)
        if len(entries) < _PAGE:
            return self._highest(entries)
        names = [entry.key for entry in self._store.entries(f"{self._prefix}{SEGMENT_FOLDER}")]
        blocks = [parse_segment_name(name.removeprefix(self._prefix)) for name in names]
        newest = numbers_of(max((block for block in blocks if block is not None), default=0))
        tail = self._store.entries(self._prefix, after=f"{self._prefix}{newest[0] - 1:06d}")
        is_there = any(one.seq == newest[-1] for one in self._events_among(tail))
        # The segments only say where to begin; where they say what is not so, all is listed.
        if is_there and self._highest(tail) < _SORTED_LIMIT:
            return self._highest(tail)
        return self._highest(self._store.entries(self._prefix))

    def write_segment(self, block: int) -> None:
        """Write the segment of a block whose events are all there. It only saves requests: what fails is logged."""
        try:
            after = f"{self._prefix}{numbers_of(block)[0] - 1:06d}"
            entries = self._store.entries(self._prefix, after=after, most=_PAGE)
            events = [one for one in self._events_among(entries) if block_of(one.seq) == block]
            stored = dict(map_concurrently(self._read, events, _READERS))
            for key, read in stored.items():
                Event.stored(read.content, key)
            self._write(block, stored)
        except SlipwayError as error:
            log.info("the segment of block %s of %s was not written: %s", block, self._prefix, error)

    # --- listing ---

    def _list(self) -> None:
        """Bring `_listed` and `_segments` up to date."""
        last = max((one.seq for one in self._listed.values()), default=0)
        if 0 < last < _SORTED_LIMIT:
            after = f"{self._prefix}{max(last - _LISTED_AGAIN, 0):06d}"
            entries = self._store.entries(self._prefix, after=after)
        else:
            after = ""
            entries = self._store.entries(self._prefix)
        events = {one.key: one for one in self._events_among(entries)}
        self._listed = {key: one for key, one in self._listed.items() if key <= after} | events
        names = [parse_segment_name(entry.key.removeprefix(self._prefix)) for entry in entries]
        self._segments |= {block for block in names if block is not None}
        total_bytes = sum(one.entry.size_bytes for one in self._listed.values())
        if total_bytes > RECORD_LIMIT_BYTES:
            raise RecordError(
                f"the record below {self._store.uri(self._prefix)} is too large to be read",
                expected=f"at most {RECORD_LIMIT_BYTES} bytes",
                found=f"{total_bytes} bytes in {counted(len(self._listed), 'event')}",
                remedy="check these objects; only Slipway should write under records/",
            )

    def _events_among(self, entries: Iterable[StoredObject]) -> Iterator[Listed]:
        """Return the entries that are events. The log names, once, what is neither an event nor a segment."""
        strays = []
        for entry in entries:
            try:
                model, version, seq, kind = parse_event_key(entry.key)
                # Another spelling of the number is another key for the same event.
                if event_key(model, version, seq, kind) == entry.key:
                    yield Listed(seq, kind, entry)
                    continue
            except RecordError:
                pass
            is_segment = parse_segment_name(entry.key.removeprefix(self._prefix)) is not None
            if not is_segment and entry.key not in self._named:
                strays.append(entry.key)
        if strays:
            self._named.update(strays)
            shown = ", ".join(repr(key) for key in strays[:_SHOWN])
            log.warning("%s objects in the record that are not events are skipped: %s", len(strays), shown)

    def _highest(self, entries: Iterable[StoredObject]) -> int:
        return max((one.seq for one in self._events_among(entries)), default=0)

    # --- reading ---

    def _stored(self, wanted: list[Listed]) -> dict[str, StoredEvent]:
        """Return the content of events by their keys: from segments where they help, else one by one."""
        large = next((one for one in wanted if one.entry.size_bytes > EVENT_LIMIT_BYTES), None)
        if large is not None:
            raise _too_large(large.key, large.entry.size_bytes)
        found = self._copies(wanted)
        singles = [one for one in wanted if one.key not in found]
        return found | dict(map_concurrently(self._read, singles, _READERS))

    def _read(self, one: Listed) -> tuple[str, StoredEvent]:
        read = self._store.read_with_etag(one.key, most_bytes=EVENT_LIMIT_BYTES)
        if read is None:
            raise InputMissingError(
                f"{self._store.uri(one.key)} is missing",
                expected="the event that is listed",
                found="none",
                remedy="the record is append-only: restore the event",
            )
        content, etag = read
        return one.key, StoredEvent(etag, content)

    def _copies(self, wanted: list[Listed]) -> dict[str, StoredEvent]:
        """Return what segments hold of the events that are wanted, where reading them saves requests."""
        missing: defaultdict[int, list[Listed]] = defaultdict(list)
        for one in wanted:
            missing[block_of(one.seq)].append(one)
        blocks = [
            block
            for block, events in missing.items()
            if block in self._segments and len(events) > len(numbers_of(block)) // 10
        ]
        if not blocks:
            return {}
        # An event itself says whether entity tags are digests here: a segment could be forged to say otherwise.
        first = min(self._listed.values(), key=lambda one: one.seq)
        tagged_with_md5 = self._read(first)[1].is_tagged_with_md5
        found: dict[str, StoredEvent] = {}
        for copies in map_concurrently(
            lambda block: self._copies_in(block, tagged_with_md5), blocks, _SEGMENT_READERS
        ):
            found |= copies
        keys = {one.key for one in wanted}
        return {key: copy for key, copy in found.items() if key in keys}

    def _copies_in(self, block: int, tagged_with_md5: bool) -> dict[str, StoredEvent]:
        """Return the copies in a segment by the events' keys; none where it cannot be used."""
        segment = f"{self._prefix}{segment_name(block)}"
        try:
            packed = self._store.read(segment, most_bytes=PACKED_LIMIT_BYTES)
            copies = unpack_segment(packed or b"")
            for name, copy in copies.items():
                self._require_agreement(name, copy, block, tagged_with_md5)
        except SlipwayError as error:
            log.warning("%s is not used, its events are read one by one: %s", self._store.uri(segment), error)
            return {}
        return {f"{self._prefix}{name}": copy for name, copy in copies.items()}

    def _require_agreement(self, name: str, copy: StoredEvent, block: int, tagged_with_md5: bool) -> None:
        listed = self._listed.get(f"{self._prefix}{name}")
        agrees = (
            listed is not None
            and block_of(listed.seq) == block
            and (listed.entry.etag, listed.entry.size_bytes) == (copy.etag, len(copy.content))
            and (copy.is_tagged_with_md5 or not tagged_with_md5)
        )
        if not agrees:
            raise SegmentError(
                f"a segment contradicts the record: {name[:100]!r}",
                expected="copies of events that are listed with the same entity tag, size and digest",
                found="no such event" if listed is None else "another one",
                remedy="remove the segment; it is written again",
            )

    # --- segments ---

    def _write_missing_segments(self, stored: Mapping[str, StoredEvent]) -> None:
        """Write the segments of blocks that were read whole and have none. It only saves requests."""
        by_block: defaultdict[int, dict[str, StoredEvent]] = defaultdict(dict)
        for key, read in stored.items():
            by_block[block_of(self._listed[key].seq)][key] = read
        full = {
            block: events
            for block, events in by_block.items()
            if block not in self._segments and len(events) >= len(numbers_of(block))
        }
        try:
            map_concurrently(lambda block: self._write(block, full[block]), full, _SEGMENT_READERS)
        except SlipwayError as error:
            log.info("segments of %s were not written: %s", self._prefix, error)

    def _write(self, block: int, stored: Mapping[str, StoredEvent]) -> None:
        if {parse_event_key(key)[2] for key in stored} != {*numbers_of(block)}:
            return
        events = {key.removeprefix(self._prefix): read for key, read in stored.items()}
        self._store.write_once(
            f"{self._prefix}{segment_name(block)}", pack_segment(events), content_type="application/gzip"
        )
        self._segments.add(block)


def _too_large(key: str, size_bytes: int) -> RecordError:
    return RecordError(
        f"{key} is too large to be an event",
        expected=f"at most {EVENT_LIMIT_BYTES} bytes",
        found=f"{size_bytes} bytes",
        remedy="check this object; only Slipway should write under records/",
    )
