"""What lies below `incoming/` and cannot be released, read by few requests.

Of a model: one listing, and once each ready.json and each configuration of a version that no record names. Of all
models some are looked at by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import READY_FILE, incoming_prefix
from slipway_core.errors import TransientError, UserError
from slipway_core.intake import READY_LIMIT_BYTES, IncomingVersion, ReadyFile, parse_ready
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.landed import (
    PROBLEMS_LIMIT,
    Folder,
    LandedProblem,
    Needed,
    folder_problem,
    foreign_problem,
    stray_problem,
)
from slipway_core.record.arrivals import version_folders
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_rules.text_forms import MODEL_NAME_LIMIT, is_dns_label

LOOKED_AT = 20
"""Models that a look at all of them looks at; the next one goes on with others."""
VERSIONS_READ = 20
"""Of a model, the newest ones."""
_CONFIG_LIMIT_BYTES = 1 << 20
_CONFIGS_READ = 10
_NEAR_BEGINS = ("ready", "Ready", "READY")
_KEPT = 2000
_PAGES = 5
_READERS = 8


class Landings:
    """Looks at what has landed.

    :param needed: returns what a model's release file asks for, and raises a `UserError` where there is none, or none
        that can be read.
    """

    def __init__(
        self,
        store: ModelStoreHook,
        needed: Callable[[str], Needed],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._needed, self._clock = store, needed, clock
        self._read: dict[tuple[str, str], ReadyFile | UserError | None] = {}
        self._found: dict[str, tuple[LandedProblem, ...]] = {}
        self._turn = ""

    def of_all(self, document: Callable[[str], ModelDocument | None]) -> tuple[LandedProblem, ...]:
        """Return what is known of every model.

        :param document: returns what the records say about a model; None: nothing.
        :raises SlipwayError: the store does not answer.
        """
        folders = self._store.listing("incoming/", delimiter="/", pages=_PAGES).folders
        names = {folder.removeprefix("incoming/").rstrip("/"): folder for folder in folders}
        models = sorted(name for name in names if is_dns_label(name, MODEL_NAME_LIMIT))
        foreign = tuple(foreign_problem(names[name]) for name in sorted(set(names) - set(models)))
        after = [name for name in models if name > self._turn]
        chosen = (after + models)[: min(LOOKED_AT, len(models))]
        map_concurrently(lambda model: self.of_model(model, document(model)), chosen, _READERS)
        self._turn = chosen[-1] if chosen else ""
        for model in set(self._found) - set(models):
            self._found.pop(model, None)
        known = [problem for model in sorted(self._found) for problem in self._found.get(model, ())]
        return (*known, *foreign)[:PROBLEMS_LIMIT]

    def of_model(self, model: str, document: ModelDocument | None) -> tuple[LandedProblem, ...]:
        """Return what of a model's uploads cannot be released, the newest version first.

        :raises SlipwayError: the store does not answer.
        """
        prefix = incoming_prefix(model)
        page = self._store.listing(prefix, pages=1)
        entries, partly = list(page.objects), set[int]()
        names = [entry.key for entry in entries]
        if not page.is_whole:
            # Too many files to list them all: the newest versions are listed alone.
            folders = self._store.listing(prefix, delimiter="/", pages=_PAGES)
            names = [*(entry.key for entry in folders.objects), *folders.folders]
            newest = sorted(version_folders(prefix, names)[0], reverse=True)[:VERSIONS_READ]
            entries, partly = [], set()
            for version in newest:
                found, is_whole = self._files_of(f"{prefix}{version}/")
                entries += found
                partly |= set() if is_whole else {version}
        _, strays = version_folders(prefix, names)
        needed = self._needed_of(model)
        now = self._clock()
        folders_seen = self._folders(model, prefix, entries, document, needed)
        problems = [
            folder_problem(
                model,
                replace(folder, is_whole=folder.version not in partly),
                document,
                needed=needed,
                now=now,
            )
            for folder in folders_seen
        ]
        landed = [one for one in problems if one is not None]
        landed += [one for stray in strays if (one := stray_problem(model, stray)) is not None]
        self._found[model] = tuple(landed[:PROBLEMS_LIMIT])
        return self._found[model]

    def _files_of(self, folder: str) -> tuple[list[StoredObject], bool]:
        """Return what lies in a version's folder, and whether that is all; what is near the marker is among it."""
        page = self._store.listing(folder, pages=1)
        found = {entry.key: entry for entry in page.objects}
        for begin in () if page.is_whole else _NEAR_BEGINS:
            found |= {entry.key: entry for entry in self._store.listing(f"{folder}{begin}", pages=1).objects}
        return list(found.values()), page.is_whole

    def _needed_of(self, model: str) -> Needed | UserError:
        try:
            return self._needed(model)
        except UserError as error:
            return error

    def _folders(
        self,
        model: str,
        prefix: str,
        entries: list[StoredObject],
        document: ModelDocument | None,
        needed: Needed | UserError,
    ) -> list[Folder]:
        inside: dict[int, dict[str, StoredObject]] = {}
        for entry in entries:
            versions, _ = version_folders(prefix, [entry.key])
            for version, names in versions.items():
                if names != {""}:  # the console's object for the folder itself
                    inside.setdefault(version, {})[next(iter(names))] = entry
        newest = sorted(inside, reverse=True)[:VERSIONS_READ]
        return map_concurrently(
            lambda version: self._folder(model, version, inside[version], document, needed), newest, _READERS
        )

    def _folder(
        self,
        model: str,
        version: int,
        entries: Mapping[str, StoredObject],
        document: ModelDocument | None,
        needed: Needed | UserError,
    ) -> Folder:
        ready = entries.get(READY_FILE)
        written_at = max(entry.written_at for entry in entries.values())
        bare = Folder(
            version, frozenset(entries), written_at, ready_at=None if ready is None else ready.written_at
        )
        line = None if document is None else document.line(version)
        is_read = line is not None and (
            line.started_at is None or ready is None or ready.written_at <= line.started_at
        )
        if ready is None or is_read:
            return bare
        said = self._ready(model, version, ready)
        wanted = [name for name in entries if not isinstance(needed, UserError) and needed.reads_config(name)]
        configs = {
            name: problem
            for name in wanted[:_CONFIGS_READ]
            if (problem := self._config(entries[name])) is not None
        }
        return replace(bare, ready=said, configs=configs)

    def _ready(self, model: str, version: int, entry: StoredObject) -> ReadyFile | UserError | None:
        def read() -> ReadyFile | UserError | None:
            try:
                body = self._store.read(entry.key, most_bytes=READY_LIMIT_BYTES)
                return None if body is None else parse_ready(body, IncomingVersion(model, version))
            except TransientError:
                raise
            except UserError as error:
                return error

        return self._once(entry, read)

    def _config(self, entry: StoredObject) -> UserError | None:
        def read() -> UserError | None:
            if entry.size_bytes > _CONFIG_LIMIT_BYTES:
                return None  # nobody looks at such a one before it is published
            try:
                body = self._store.read(entry.key, most_bytes=_CONFIG_LIMIT_BYTES)
                if body is not None:
                    from_pbtxt(body.decode(errors="replace"), entry.key)
            except TransientError:
                raise
            except UserError as error:
                return error
            return None

        found = self._once(entry, read)
        return found if isinstance(found, UserError) else None

    def _once(
        self, entry: StoredObject, read: Callable[[], ReadyFile | UserError | None]
    ) -> ReadyFile | UserError | None:
        """Return what an upload was found to be; the same upload is read once."""
        key = (entry.key, f"{entry.etag} {entry.written_at.isoformat()}")
        if key not in self._read:
            self._read[key] = read()
            while len(self._read) > _KEPT:
                self._read.pop(next(iter(self._read)), None)
        return self._read.get(key)
