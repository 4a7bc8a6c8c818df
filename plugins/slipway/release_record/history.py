"""What the names below ``records/MODEL/`` say about a model's releases; hardly anything is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from slipway.hooks.s3_listing import Listing
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.record_reader import EVENT_LIMIT_BYTES
from slipway_core.errors import UserError
from slipway_core.record.arrivals import Attempts, read_attempts, version_folders
from slipway_core.record.events import Event
from slipway_core.record.kinds import ReleaseFinished
from slipway_core.record.segment import parse_segment_name

LIST_PAGES = 20
"""A listing goes no further; a page has a thousand names."""

# Beside the versions: freezes of the model.
_KNOWN_FOLDERS = frozenset({"freezes/"})


class Lists(Protocol):
    """Lists what lies below a prefix, as `ModelStoreHook.listing` does."""

    def __call__(
        self, prefix: str, *, delimiter: str = "", pages: int = LIST_PAGES, page_size: int | None = None
    ) -> Listing:
        """Return the names below the prefix."""
        ...


@dataclass(frozen=True)
class Newest:
    """The newest version of a model whose release was ever started, and when that began; None: there is none.

    `rejected` are versions above it that were never started, and that somebody has rejected.
    """

    version: int | None = None
    began_at: datetime | None = None
    rejected: frozenset[int] = frozenset()


class ModelHistory:
    """The releases of one model.

    :param lists: how names are listed.
    :param on_stray: is called with a sentence about each object that belongs to nothing.
    """

    def __init__(self, model: str, lists: Lists, on_stray: Callable[[str], object]) -> None:
        self._prefix = f"records/{model}/"
        self._lists = lists
        self._on_stray = on_stray

    def newest(self, guess: int | None = None, *, but: int | None = None) -> Newest:
        """Return the newest version that was ever started.

        :param guess: is looked for first, with one request.
        :param but: a version that does not count.
        """
        rejected: set[int] = set()
        if guess is not None and (began_at := self._began_at(guess, rejected)) is not None:
            return Newest(guess, began_at)
        for version in self.recorded():
            if version in (guess, but):
                continue
            if (began_at := self._began_at(version, rejected)) is not None:
                return Newest(version, began_at, frozenset(rejected))
        return Newest(rejected=frozenset(rejected))

    def recorded(self) -> list[int]:
        """Return the versions with a folder, newest first; beside them lies what the lock keeps.

        :raises UserError: there are more folders than are listed.
        """
        page = self._lists(self._prefix, delimiter="/")
        if not page.is_whole:
            raise UserError(f"{self._prefix} has too many folders", expected=f"at most {LIST_PAGES * 1000}")
        folders = [name for name in page.folders if name.removeprefix(self._prefix) not in _KNOWN_FOLDERS]
        versions, strays = version_folders(self._prefix, folders)
        for stray in strays:
            self._on_stray(f"{stray!r} belongs to no release")
        return sorted(versions, reverse=True)

    def attempts(self, version: int) -> Attempts | None:
        """Return what the names of a version's events tell; None where there is none."""
        prefix = f"{self._prefix}{version}/"
        page = self._lists(prefix)
        attempts, strays = read_attempts((entry.key, entry.written_at) for entry in page.objects)
        for stray in strays:
            if parse_segment_name(stray.removeprefix(prefix)) is None:
                self._on_stray(f"{stray!r} is not an event of a release")
        return attempts

    def _began_at(self, version: int, rejected: set[int]) -> datetime | None:
        """Return when the version's first release began; None: none did. Mostly the first event has it."""
        page = self._lists(f"{self._prefix}{version}/", pages=1, page_size=1)
        first, _ = read_attempts((entry.key, entry.written_at) for entry in page.objects)
        if page.objects and (first is None or first.started_at is None):
            first = self.attempts(version)
        if first is None:
            return None
        if first.started_at is None and first.rejected:
            rejected.add(version)
        return first.started_at


def is_taken_back(store: ModelStoreHook, attempts: Attempts) -> bool:
    """Return whether users were taken off the version after all, and nobody has said since that it was no fault of it.

    A preview that was taken away leaves the same names, but for how its release ended: that is read.

    :raises RecordError: that event cannot be read.
    """
    if not attempts.taken_back:
        return False
    if attempts.finished_key is None:
        return True
    content = store.read(attempts.finished_key, most_bytes=EVENT_LIMIT_BYTES)
    if content is None:
        return True
    data = Event.stored(content, attempts.finished_key).data
    return not isinstance(data, ReleaseFinished) or data.outcome == "rolled_back"
