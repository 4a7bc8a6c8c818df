"""Published versions: decided, copied to their place, completed by the manifest; read manifest first and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.deletion import require_not_deleted
from slipway.registry.publisher import Publisher, StoredSource
from slipway.registry.signing import SigningKey, require_signature
from slipway_core.bucket_layout import RepositoryPaths, repository_paths, staged_key, staged_prefixes
from slipway_core.errors import (
    InputMissingError,
    ModelInvalidError,
    SigningRefusedError,
    SlipwayError,
    VersionConflictError,
)
from slipway_core.publishing.manifest import (
    GOLDEN_FILE,
    FileEntry,
    Manifest,
    attachment,
    require_same_content,
)
from slipway_core.publishing.manifest_identity import require_identity
from slipway_core.record.arrivals import version_folders
from slipway_core.spec.release_file import Publishing
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import SIZE_LIMIT, from_pbtxt
from slipway_rules.version_manifest import (
    MANIFEST_LIMIT_BYTES,
    SIGNATURE_FILE,
    SIGNATURE_LIMIT_BYTES,
    config_files,
)

_NAMED = 8  # so many published versions are named where one is missing
_SMALL_BYTES = 2**20  # up to here a file that is not its manifest's is read all the same, to say what it is

__all__ = ["GOLDEN_FILE", "ModelRegistry", "StoredSource", "golden_key"]


class ModelRegistry:
    """The versions of models below ``models/`` in one bucket.

    A version exists when its manifest does. It never changes: the same bytes again are a no-op, other bytes
    under the same number are an error.

    :param workers: how many files are on their way at once.
    """

    def __init__(self, store: ModelStoreHook, *, workers: int = 8) -> None:
        self._store = store
        self._workers = workers

    def storage_uri(self, model: str, version: int) -> str:
        """Return what an InferenceService is given as storageUri: the Triton model repository."""
        return repository_paths(model, version).storage_uri(self._store.bucket)

    def manifest(self, model: str, version: int) -> Manifest | None:
        """Return the version's manifest, or None where the version was never published.

        :raises VersionDeletedError: it was published, and deleted.
        :raises UserError: what lies there is no manifest.
        :raises VersionConflictError: it is another model's or version's.
        """
        body = self._document(model, version)
        return None if body is None else self._parsed(body, model, version)

    def require(self, model: str, version: int) -> Manifest:
        """Return the version's manifest.

        :raises InputMissingError: the version was never published.
        :raises VersionDeletedError: it was, and deleted.
        :raises UserError: what lies there is no manifest.
        :raises VersionConflictError: it is another model's or version's.
        """
        return self.require_with_digest(model, version)[0]

    def require_with_digest(self, model: str, version: int) -> tuple[Manifest, str]:
        """Return the version's manifest and the SHA-256, in hex, of its bytes: by it a gate's pass is held to this
        manifest.

        :raises InputMissingError: the version was never published.
        :raises VersionDeletedError: it was, and deleted.
        :raises UserError: what lies there is no manifest.
        :raises VersionConflictError: it is another model's or version's.
        """
        body = self._document(model, version)
        if body is None:
            raise InputMissingError(
                f"version {version} of {model!r} is not published",
                expected=self._store.uri(repository_paths(model, version).manifest),
                found=self._published(model),
                remedy="release the version first, or name one that is published",
            )
        return self._parsed(body, model, version), hashlib.sha256(body).hexdigest()

    def publish(
        self,
        manifest: Manifest,
        sources: Mapping[str, bytes | StoredSource],
        golden: str,
        *,
        attachments: Mapping[str, bytes | StoredSource] | None = None,
        settings: Publishing | None = None,
        sign: Callable[[Manifest], bytes] | None = None,
    ) -> bool:
        """Decide for these bytes, lay every file in place and check it there, then write the manifest.

        What an earlier publisher of this version has left half done is finished first, whatever its bytes: it had
        decided.

        :param sources: where each of the manifest's files comes from, by its path.
        :param golden: key of the golden set, which is kept beside the repository for later validations.
        :param attachments: what else is kept beside the repository, by its name there.
        :param sign: makes the signature of a manifest that has every other attachment; None: it is not signed.
        :return: whether this call wrote the manifest; False: these very bytes are published already.
        :raises VersionConflictError: other bytes are published, or decided on, under this version.
        :raises VersionDeletedError: the version was deleted; its number is not used again.
        """
        require_identity(manifest, manifest.model, manifest.version, "the manifest to be published")
        publisher = Publisher(self._store, settings or Publishing(), self._workers)
        measured = manifest.source.files.get(GOLDEN_FILE)
        beside = {GOLDEN_FILE: StoredSource(golden, measured), **(attachments or {})}
        published, written = self.manifest(manifest.model, manifest.version), False
        if published is None:
            published, written = publisher.publish(manifest, sources, beside, sign)
        publisher.tidy(published)
        require_same_content(published, manifest)
        return written

    def configs(self, manifest: Manifest) -> dict[str, Config]:
        """Return the configuration of each model of the version by the model's name, checked against its manifest.

        :raises ModelInvalidError: a config.pbtxt is too large, or not a text of Triton's ModelConfig.
        :raises VersionConflictError: it is not the file that the manifest names.
        """
        repository = _paths(manifest).repository
        return {
            name: self._config(repository + path, manifest.files[path])
            for name, path in config_files(manifest.files).items()
        }

    def golden_set(self, manifest: Manifest) -> bytes:
        """Return the version's golden set (npz), checked against its manifest."""
        entry = attachment(manifest, GOLDEN_FILE)
        if entry is None:
            raise InputMissingError(
                f"version {manifest.version} of {manifest.model!r} was published without a golden set",
                expected=f"{GOLDEN_FILE} in its manifest",
                found="none",
                remedy="release a new version",
            )
        return self._read(golden_key(manifest), entry)

    def require_signed(self, manifest: Manifest, key: SigningKey) -> None:
        """Require that the manifest and its files are signed with the key, or with one that is accepted beside it.

        What is checked of the files is that the signature is of their digests in the manifest; whoever reads a file
        checks it against those.

        :raises SigningRefusedError: there is no signature, it is another key's, or of another manifest or other
            files.
        :raises SignedWithoutIdentityError: it is of the files, and says nothing of the manifest.
        :raises VersionConflictError: the manifest is not the one that lies in the bucket now.
        """
        entry = attachment(manifest, SIGNATURE_FILE)
        if entry is None:
            raise SigningRefusedError(
                f"version {manifest.version} of {manifest.model!r} is not signed",
                expected="a signature with the key that the release file names under `publish.signing`",
                found="none in the manifest",
                remedy="release the model under a new version, which is then signed",
            )
        if entry.size_bytes > SIGNATURE_LIMIT_BYTES:
            raise SigningRefusedError(
                f"the signature of version {manifest.version} of {manifest.model!r} is too large",
                expected=f"at most {SIGNATURE_LIMIT_BYTES} bytes",
                found=f"{entry.size_bytes} bytes in the manifest",
                remedy="find out who published the version; release the model under a new version",
            )
        signature = self._read(_paths(manifest).root + SIGNATURE_FILE, entry)
        require_signature(self._document_of(manifest), signature, key)

    def copy_to_staging(self, manifest: Manifest, name: str) -> None:
        """Copy the version's model folders to the staging server's repository, checked against the manifest.

        The copies are encrypted as the store encrypts what it writes.

        :param name: what the model is called there; an ensemble's members are named after it.
        :raises VersionConflictError: a published file is not the manifest's; its copy is removed.
        """
        there = [entry.key for prefix in staged_prefixes(name) for entry in self._store.entries(prefix)]
        map_concurrently(self._store.delete, there, self._workers)
        self.copy_models(manifest, lambda path: staged_key(path, name, manifest.model))

    def copy_models(self, manifest: Manifest, key_of: Callable[[str], str]) -> None:
        """Copy the version's model folders elsewhere in the bucket, checked against the manifest.

        :param key_of: where a file of the version's repository goes.
        :raises VersionConflictError: a published file is not the manifest's; its copy is removed.
        """

        def copy(path: str) -> None:
            expected = manifest.files[path]
            source, destination = _paths(manifest).repository + path, key_of(path)
            found = self._copied(source, destination)
            if found != expected:
                self._store.delete(destination)
                raise self._damaged(source, expected, found)

        map_concurrently(copy, manifest.files, self._workers)

    def require_copies(self, expected: Mapping[str, FileEntry]) -> None:
        """Return where files that were laid elsewhere in the bucket are what they shall be.

        :param expected: each by its key.
        :raises InputMissingError: one is not there.
        :raises VersionConflictError: one is another file by now.
        """
        map_concurrently(lambda key: self._require_copy(key, expected[key]), expected, self._workers)

    def _require_copy(self, key: str, expected: FileEntry) -> None:
        facts = self._store.stat(key)
        if facts is None:
            raise InputMissingError(
                f"{self._store.uri(key)} is missing",
                expected="the file that was put there",
                found="none",
                remedy="find out what deletes objects there",
            )
        sha256, size_bytes = facts.sha256, facts.size_bytes
        if sha256 is None:  # the store keeps none of the whole object
            sha256, size_bytes = self._store.sha256(key)
        found = FileEntry(sha256=sha256, size_bytes=size_bytes)
        if found != expected:
            raise self._damaged(key, expected, found)

    def _published(self, model: str) -> str:
        """Return which versions have a manifest, for who has asked for one that has none."""
        prefix = f"models/{model}/"
        try:
            folders = self._store.listing(prefix, delimiter="/", pages=1).folders
            versions, _ = version_folders(prefix, folders)
            manifests = (
                (version, repository_paths(model, version).manifest)
                for version in sorted(versions, reverse=True)[:_NAMED]
            )
            found = [str(version) for version, manifest in manifests if self._store.exists(manifest)]
        except SlipwayError:
            return "no manifest"
        return f"versions {', '.join(found)} of it" if found else "no version of it"

    def _document(self, model: str, version: int) -> bytes | None:
        paths = repository_paths(model, version)
        document = self._store.read(paths.manifest, most_bytes=MANIFEST_LIMIT_BYTES)
        require_not_deleted(self._store, paths)  # after it: whoever deletes writes the tombstone first
        return document

    def _parsed(self, document: bytes, model: str, version: int) -> Manifest:
        name = self._store.uri(repository_paths(model, version).manifest)
        manifest = Manifest.from_bytes(document, name)
        require_identity(manifest, model, version, name)
        return manifest

    def _document_of(self, manifest: Manifest) -> bytes:
        """Return the manifest's own bytes, which are what is signed."""
        model, version = manifest.model, manifest.version
        document = self._document(model, version)
        if document is None or self._parsed(document, model, version) != manifest:
            raise VersionConflictError(
                f"{self._store.uri(_paths(manifest).manifest)} was changed after it was read",
                expected="a manifest, which is never changed",
                found="none" if document is None else "another manifest",
                remedy="find out who wrote it; release the model under a new version",
            )
        return document

    def _config(self, key: str, expected: FileEntry) -> Config:
        if expected.size_bytes > SIZE_LIMIT:
            raise ModelInvalidError(
                f"{self._store.uri(key)} cannot be a model's configuration",
                expected=f"a text of at most {SIZE_LIMIT} characters",
                found=f"{expected.size_bytes} bytes",
                remedy="release the model under a new version",
            )
        return from_pbtxt(self._read(key, expected), self._store.uri(key))

    def _copied(self, source: str, destination: str) -> FileEntry:
        """Return what a copy holds that was just made."""
        facts_before = self._store.stat(source)
        size_bytes = None if facts_before is None else facts_before.size_bytes
        sha256 = self._store.copy(source, destination, size_bytes=size_bytes)
        if sha256 is None or size_bytes is None:
            sha256, size_bytes = self._store.sha256(destination)
        return FileEntry(sha256=sha256, size_bytes=size_bytes)

    def _read(self, key: str, expected: FileEntry) -> bytes:
        body = self._store.require(
            key,
            remedy="the published version is damaged: release a new version",
            most_bytes=max(expected.size_bytes, _SMALL_BYTES),
        )
        if FileEntry.of(body) != expected:
            raise self._damaged(key, expected, FileEntry.of(body))
        return body

    def _damaged(self, key: str, expected: FileEntry, found: FileEntry) -> VersionConflictError:
        return VersionConflictError(
            f"{self._store.uri(key)} is not the file that its manifest names",
            expected=f"{expected.size_bytes} bytes, SHA-256 {expected.sha256}",
            found=f"{found.size_bytes} bytes, SHA-256 {found.sha256}",
            remedy="find out who wrote to this prefix; release the model under a new version",
        )


def golden_key(manifest: Manifest) -> str:
    """Return where a version's golden set is kept."""
    return f"{_paths(manifest).root}{GOLDEN_FILE}"


def _paths(manifest: Manifest) -> RepositoryPaths:
    return repository_paths(manifest.model, manifest.version)
