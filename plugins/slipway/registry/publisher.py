"""How a version comes into the bucket: `include/slipway_core/publishing/publication.py` says why in this order."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.s3_transfer import (
    SINGLE_COPY_LIMIT_BYTES,
    ObjectFacts,
    ObjectSettings,
    encryption_arguments,
)
from slipway.registry.deletion import require_not_deleted
from slipway_core.bucket_layout import RepositoryPaths, repository_paths
from slipway_core.errors import InputMissingError, SlipwayError, VersionConflictError
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.publishing.manifest_identity import require_identity
from slipway_core.publishing.publication import (
    DECISION_LIMIT_BYTES,
    Origin,
    PartsDigest,
    Publication,
    decision_key,
    origin_prefix,
    placed_files,
)
from slipway_core.spec.release_file import Publishing
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES, SIGNATURE_FILE

log = logging.getLogger(__name__)

_CONTENT_TYPES = {".json": "application/json", ".pbtxt": "text/plain", ".sig": "application/json"}
_NOT_IN_TAGS = re.compile(r"[^\w\s+\-=.:/@]")


@dataclass(frozen=True)
class StoredSource:
    """A file that lies in the bucket already, to be copied on the server's side.

    :param measured: what whoever wrote it says that it is; it is held against what S3 finds before anything is decided.
    :param parts: how S3 should know it, where it was written in parts.
    """

    key: str
    measured: FileEntry | None = None
    parts: PartsDigest | None = None


Source = bytes | StoredSource


class Publisher:
    """Publishes versions into one bucket.

    :param workers: how many files are on their way at once.
    """

    def __init__(self, store: ModelStoreHook, settings: Publishing, workers: int) -> None:
        self._store = store
        self._settings = settings
        self._workers = workers

    def publish(
        self,
        manifest: Manifest,
        sources: Mapping[str, Source],
        attachments: Mapping[str, Source],
        sign: Callable[[Manifest], bytes] | None = None,
    ) -> tuple[Manifest, bool]:
        """Publish the version: what was decided before, or else what is given.

        :param sign: makes the signature of a manifest that has every other attachment; None: it is not signed.
        :return: the manifest that the version has, and whether this call wrote it.
        :raises VersionConflictError: a source is not what the manifest says.
        """
        paths = repository_paths(manifest.model, manifest.version)
        files = {f"repository/{path}": source for path, source in sources.items()} | dict(attachments)
        try:
            decided = self._decided(paths) or self._decide(manifest, files, attachments, sign, paths)
            self._lay_in_place(decided, files, paths)
        except SlipwayError:
            # Another publisher may have finished meanwhile, and tidied up what was being copied from.
            published = self._published(paths)
            if published is None:
                raise
            return published, False
        require_not_deleted(self._store, paths)
        body = decided.manifest.to_bytes()
        settings = self._object_settings(decided.manifest, paths.manifest, None)
        if self._store.write_once(paths.manifest, body, settings=settings):
            return decided.manifest, True
        published = self._published(paths)
        if published is None:
            raise VersionConflictError(
                f"{self._store.uri(paths.manifest)} has just disappeared",
                expected="a manifest, which is never removed while its version is published",
                found="none",
                remedy="find out what removed it, then release the version again",
            )
        return published, False

    def tidy(self, manifest: Manifest) -> None:
        """Remove what publishing needed and the version does not; what cannot be removed now is left."""
        paths = repository_paths(manifest.model, manifest.version)
        try:
            for entry in self._store.entries(origin_prefix(paths)):
                self._store.delete(entry.key)
            # Also what a converter that was killed has begun to write.
            for prefix in (paths.repository, paths.work, origin_prefix(paths)):
                self._store.abort_uploads(prefix)
        except SlipwayError as error:
            log.warning("the version is published, but not everything was tidied up: %s", error)

    # 1: every file lies somewhere where it stays

    def _attached(self, manifest: Manifest, attachments: Mapping[str, Source]) -> Manifest:
        """Return the manifest with more files beside the repository, measured where nobody has measured them."""
        entries = {name: self._measure(source) for name, source in attachments.items()}
        return manifest.model_copy(update={"attachments": {**manifest.attachments, **entries}})

    def _measure(self, source: Source) -> FileEntry:
        if isinstance(source, bytes):
            return FileEntry.of(source)
        if source.measured is not None:
            return source.measured
        sha256, size_bytes = self._store.sha256(source.key)
        return FileEntry(sha256=sha256, size_bytes=size_bytes)

    def _pinned(self, source: Source, expected: FileEntry, paths: RepositoryPaths) -> Origin:
        """Return where the file's bytes are safe, and are what they should be.

        :raises VersionConflictError: they are not.
        """
        safe = Origin(key=f"{origin_prefix(paths)}{expected.sha256}")
        if isinstance(source, bytes):
            self._require(safe.key, FileEntry.of(source), expected)
            self._store.write(safe.key, source, settings=self._aside)
            return safe
        facts = self._store.stat(source.key)
        if facts is None:
            raise InputMissingError(
                f"{self._store.uri(source.key)} is missing",
                expected="an object",
                found="none",
                remedy="check the bucket, the model and the version",
            )
        self._require_size(source.key, facts.size_bytes, expected)
        if facts.version_id is not None:
            origin = self._version(source, facts, facts.version_id, expected)
            if origin is not None:
                return origin
        # Some stores replace an object by a copy whatever its If-None-Match says, and none has it for copies in
        # parts: no other publisher may use this key.
        parts = source.parts if facts.size_bytes > SINGLE_COPY_LIMIT_BYTES else None
        safe = Origin(key=f"{safe.key}-{secrets.token_hex(8)}", parts=parts)
        return self._copied_aside(source.key, expected, safe)

    def _version(
        self, source: StoredSource, facts: ObjectFacts, version_id: str, expected: FileEntry
    ) -> Origin | None:
        """Return the version of the source itself, if S3 knows its digest; a large one without is read."""
        sha256 = facts.sha256
        if sha256 is None and _is_known_by(source.parts, facts):
            return Origin(key=source.key, version_id=version_id, parts=source.parts)
        if sha256 is None and facts.size_bytes > SINGLE_COPY_LIMIT_BYTES:
            sha256, _ = self._store.sha256(source.key, version_id)
        if sha256 is None:
            return None
        self._require(source.key, FileEntry(sha256=sha256, size_bytes=facts.size_bytes), expected)
        return Origin(key=source.key, version_id=version_id)

    def _copied_aside(self, source: str, expected: FileEntry, safe: Origin) -> Origin:
        """Copy a file to where nobody else writes."""
        sha256 = self._store.copy(
            source, safe.key, size_bytes=expected.size_bytes, settings=self._aside, parts=safe.parts
        )
        if sha256 == expected.sha256:
            return safe
        facts = self._store.stat(safe.key)
        if facts is None:
            raise InputMissingError(
                f"{self._store.uri(safe.key)} was removed while the version was being published",
                remedy="run the task again",
            )
        found = self._found(safe, expected, facts)
        if found != expected:
            # The source changed after it was measured: this copy does not hold what its key says.
            self._store.delete_this(safe.key, facts.etag)
            self._require(source, found, expected)
        return safe

    # 2: one object decides

    def _decide(
        self,
        manifest: Manifest,
        files: dict[str, Source],
        attachments: Mapping[str, Source],
        sign: Callable[[Manifest], bytes] | None,
        paths: RepositoryPaths,
    ) -> Publication:
        """Decide for these files, unless somebody has decided meanwhile; return what holds.

        The signature, where one is made, becomes one of the files.
        """
        manifest = self._attached(manifest, attachments)
        if sign is not None:
            files[SIGNATURE_FILE] = sign(manifest)
            manifest = self._attached(manifest, {SIGNATURE_FILE: files[SIGNATURE_FILE]})
        entries = placed_files(manifest)
        pinned = map_concurrently(
            lambda path: self._pinned(files[path], entries[path], paths), entries, self._workers
        )
        own = Publication(manifest=manifest, origins=dict(zip(entries, pinned, strict=True)))
        settings = self._object_settings(manifest, decision_key(paths), None)
        if self._store.write_once(decision_key(paths), own.to_bytes(), settings=settings):
            return own
        decided = self._decided(paths)
        if decided is None:
            raise VersionConflictError(
                f"{self._store.uri(decision_key(paths))} has just disappeared",
                expected="a decision about the version, which is never removed",
                found="none",
                remedy="find out what removed it, then release the version again",
            )
        return decided

    def _decided(self, paths: RepositoryPaths) -> Publication | None:
        return read_decision(self._store, paths)

    def _published(self, paths: RepositoryPaths) -> Manifest | None:
        body = self._store.read(paths.manifest, most_bytes=MANIFEST_LIMIT_BYTES)
        if body is None:
            return None
        manifest = Manifest.from_bytes(body, self._store.uri(paths.manifest))
        require_identity(manifest, paths.model, paths.version, self._store.uri(paths.manifest))
        return manifest

    # 3: the files come to their places

    def _lay_in_place(self, decided: Publication, own: Mapping[str, Source], paths: RepositoryPaths) -> None:
        """Copy what is not there yet, and remove from the repository what does not belong to it."""
        entries = placed_files(decided.manifest)
        there = {entry.key for entry in self._store.entries(paths.root)}

        def place(path: str) -> None:
            key, expected = paths.root + path, entries[path]
            if key in there and self._holds(decided.origins[path], key, expected):
                return
            try:
                self._copy(decided.origins[path], key, expected, decided.manifest)
            except InputMissingError:
                # Somebody emptied work/. The same file may still be at hand.
                if path not in own:
                    raise
                origin = self._pinned(own[path], expected, paths)
                self._copy(origin, key, expected, decided.manifest)

        map_concurrently(place, entries, self._workers)
        for key in there:
            if key.startswith(paths.repository) and key.removeprefix(paths.root) not in entries:
                self._store.delete(key)

    def _copy(self, origin: Origin, key: str, expected: FileEntry, manifest: Manifest) -> None:
        sha256 = self._store.copy(
            origin.key,
            key,
            version_id=origin.version_id,
            size_bytes=expected.size_bytes,
            settings=self._object_settings(manifest, key, expected),
            has_sha256=origin.parts is None,
            parts=origin.parts,
        )
        if sha256 != expected.sha256:
            self._require(key, self._found(_at(origin, key), expected, self._store.stat(key)), expected)

    def _holds(self, origin: Origin, key: str, expected: FileEntry) -> bool:
        """Return whether the file is there; read only if the store has no digest of it."""
        facts = self._store.stat(key)
        if facts is None or facts.size_bytes != expected.size_bytes:
            return False
        return self._found(_at(origin, key), expected, facts) == expected

    def _found(self, there: Origin, expected: FileEntry, facts: ObjectFacts | None) -> FileEntry:
        """Return size and digest of what lies there: the store's own, or computed where it has none."""
        if facts is not None and facts.sha256 is not None:
            return FileEntry(sha256=facts.sha256, size_bytes=facts.size_bytes)
        if facts is not None and _is_known_by(there.parts, facts):
            return expected
        sha256, size_bytes = self._store.sha256(there.key)
        return FileEntry(sha256=sha256, size_bytes=size_bytes)

    @property
    def _aside(self) -> ObjectSettings:
        """Return the settings of what publishing lays aside: encrypted as what it publishes."""
        return ObjectSettings(encryption=self._encryption)

    def _object_settings(self, manifest: Manifest, key: str, entry: FileEntry | None) -> ObjectSettings:
        """Return the settings of a published object: what people who browse the bucket see, and its encryption."""
        names = {"model": manifest.model, "version": str(manifest.version)}
        digest = {} if entry is None else {"sha256": entry.sha256}
        suffix = f".{key.rpartition('.')[2]}"
        return ObjectSettings(
            content_type=_CONTENT_TYPES.get(suffix, "application/octet-stream"),
            metadata={f"slipway-{name}": value for name, value in {**names, **digest}.items()},
            tags=self._tags(manifest, names) if self._settings.tag_objects else "",
            encryption=self._encryption,
        )

    @property
    def _encryption(self) -> Mapping[str, str | bool]:
        """Return boto's arguments for what the release file asks for; empty: as the connection says."""
        asked = self._settings.encryption
        return {} if asked is None else encryption_arguments(asked)

    def _tags(self, manifest: Manifest, names: Mapping[str, str]) -> str:
        source = manifest.source
        trained = {
            "dataset-version": source.dataset_version,
            "accuracy": None if source.accuracy is None else f"{source.accuracy:g}",
            "trained-at": None if source.trained_at is None else source.trained_at.isoformat(),
        }
        known = {name: value for name, value in {**names, **trained}.items() if value}
        tags = {f"slipway:{name}": _NOT_IN_TAGS.sub("_", value)[:256] for name, value in known.items()}
        return urlencode({**tags, **self._settings.tags})

    def _require(self, key: str, found: FileEntry, expected: FileEntry) -> None:
        if found != expected:
            raise VersionConflictError(
                f"{self._store.uri(key)} is not the file that its manifest names",
                expected=f"{expected.size_bytes} bytes, SHA-256 {expected.sha256}",
                found=f"{found.size_bytes} bytes, SHA-256 {found.sha256}",
                remedy="find out what changed it after it was measured, then run the stage again",
            )

    def _require_size(self, key: str, size_bytes: int, expected: FileEntry) -> None:
        if size_bytes != expected.size_bytes:
            raise VersionConflictError(
                f"{self._store.uri(key)} is not the file that its manifest names",
                expected=f"{expected.size_bytes} bytes",
                found=f"{size_bytes} bytes",
                remedy="find out what changed it after it was measured, then run the stage again",
            )


def read_decision(store: ModelStoreHook, paths: RepositoryPaths) -> Publication | None:
    """Return what was decided about a version, or None where nothing was.

    :raises UserError: what lies there is no decision.
    :raises VersionConflictError: it is about another model or version.
    """
    key = decision_key(paths)
    body = store.read(key, most_bytes=DECISION_LIMIT_BYTES)
    if body is None:
        return None
    decision = Publication.from_bytes(body, store.uri(key))
    require_identity(decision.manifest, paths.model, paths.version, store.uri(key))
    return decision


def _at(origin: Origin, key: str) -> Origin:
    """Return a copy of what lies at an origin."""
    return Origin(key=key, parts=origin.parts)


def _is_known_by(parts: PartsDigest | None, facts: ObjectFacts) -> bool:
    """Return whether S3 has taken the very parts whose digests were computed where the file was written."""
    return parts is not None and facts.parts_sha256 == parts.sha256
