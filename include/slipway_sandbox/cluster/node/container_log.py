"""What a container printed: kept in a file line by line with the time of each, and followed by readers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

# A longer line is kept in pieces, as container runtimes do.
PIECE_MAX_BYTES = 16 * 1024
_WHOLE, _PIECE = b"F", b"P"


@dataclass(frozen=True)
class LogQuery:
    """What part of a log is wanted. Times are UTC; None means no limit."""

    follow: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class ContainerLog:
    """The log of one container. On disk a line is `TIME F|P TEXT`: F ends a line, P is a piece of a long one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """True while the container may still write."""
        return self._file is not None

    def open(self) -> None:
        """Begin the log; it stays open until `close`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Take what the container printed just now; an unfinished line waits for its end."""
        *lines, rest = (self._rest + data).split(b"\n")
        records = [piece for line in lines for piece in _pieces(line)]
        while len(rest) > PIECE_MAX_BYTES:
            records.append((_PIECE, rest[:PIECE_MAX_BYTES]))
            rest = rest[PIECE_MAX_BYTES:]
        self._rest = rest
        self._append(records)

    def close(self) -> None:
        """End the log: nothing more will come, and followers are let go."""
        if self._file is None:
            return
        if self._rest:
            self._append([(_WHOLE, self._rest)])
            self._rest = b""
        self._file.close()
        self._file = None
        self._notify()

    def remove(self) -> None:
        """Delete what was kept."""
        self.close()
        self._path.unlink(missing_ok=True)

    def tail(self, *, lines: int, max_bytes: int) -> str:
        """Return the last lines as text, at most `max_bytes` of them."""
        records = self._read_from(0)[0][-lines:]
        return b"".join(_rendered(record, timestamps=False) for record in records)[-max_bytes:].decode(
            errors="replace"
        )

    async def read(self, query: LogQuery) -> AsyncIterator[bytes]:
        """Yield the log in chunks as `query` says; with `follow` until the container has ended."""
        left = query.limit_bytes
        offset, first = 0, True
        while True:
            changed, ended = self._changed, not self.is_open
            records, offset = self._read_from(offset)
            if query.since is not None:
                earliest = _stamp(query.since.astimezone(UTC), 0)
                records = [record for record in records if record[: len(earliest)] >= earliest]
            if first and query.tail_lines is not None:
                records = records[max(len(records) - query.tail_lines, 0) :] if query.tail_lines else []
            first = False
            chunk = b"".join(_rendered(record, timestamps=query.timestamps) for record in records)
            if left is not None:
                chunk, left = chunk[:left], left - len(chunk)
            if chunk:
                yield chunk
            if ended or not query.follow or (left is not None and left <= 0):
                return
            await changed.wait()

    def _append(self, records: list[tuple[bytes, bytes]]) -> None:
        if not records or self._file is None:
            return
        now = time.time_ns()
        stamp = _stamp(datetime.fromtimestamp(now // 1_000_000_000, UTC), now % 1_000_000_000)
        self._file.write(b"".join(b"%b %b %b\n" % (stamp, mark, text) for mark, text in records))
        self._notify()

    def _notify(self) -> None:
        # Each waiting reader holds the event it waits on; a fresh one is for those that come later.
        self._changed.set()
        self._changed = asyncio.Event()

    def _read_from(self, offset: int) -> tuple[list[bytes], int]:
        """Return the records from a byte offset on, and the offset behind them."""
        if not self._path.exists():
            return [], offset
        with self._path.open("rb") as file:
            file.seek(offset)
            data = file.read()
        return data.split(b"\n")[:-1], offset + len(data)


def _pieces(line: bytes) -> list[tuple[bytes, bytes]]:
    parts = [line[i : i + PIECE_MAX_BYTES] for i in range(0, len(line), PIECE_MAX_BYTES)] or [b""]
    return [(_PIECE, part) for part in parts[:-1]] + [(_WHOLE, parts[-1])]


def _rendered(record: bytes, *, timestamps: bool) -> bytes:
    stamp, mark, text = record.split(b" ", 2)
    return (stamp + b" " if timestamps else b"") + text + (b"\n" if mark == _WHOLE else b"")


def _stamp(when: datetime, nanoseconds: int) -> bytes:
    """Return a time as RFC 3339 with nanoseconds, of fixed width, so that stamps sort as the times do."""
    nanoseconds = nanoseconds or when.microsecond * 1000
    return f"{when:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z".encode()


def seconds_ago(seconds: int) -> datetime:
    """Return the time `seconds` before now, in UTC."""
    return datetime.now(UTC) - timedelta(seconds=seconds)
