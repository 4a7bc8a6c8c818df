"""Published versions: written data first and manifest last, read manifest first and checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from include.model_release.errors import InputMissingError, VersionConflictError
from include.model_release.manifest import FileEntry, Manifest, require_same_content
from include.model_release.repository import (
    RepositoryPaths,
    config_files,
    repository_paths,
    staged_key,
    staged_prefixes,
)
from slipway.hooks.store import ModelStoreHook

GOLDEN_FILE = "golden.npz"


@dataclass(frozen=True)
class StoredSource:
    """A file that lies in the bucket already, to be copied on the server's side."""

    key: str


class ModelRegistry:
    """The versions of models below ``models/`` in one bucket.

    A version exists when its manifest does. It never changes: the same bytes again are a no-op, other bytes
    under the same number are an error.
    """

    def __init__(self, store: ModelStoreHook) -> None:
        self._store = store

    def storage_uri(self, model: str, version: int) -> str:
        """What an InferenceService is given as storageUri: the Triton model repository."""
        return repository_paths(model, version).storage_uri(self._store.bucket)

    def manifest(self, model: str, version: int) -> Manifest | None:
        """The version's manifest, or None where the version was never published."""
        key = repository_paths(model, version).manifest
        body = self._store.read(key)
        return None if body is None else Manifest.from_bytes(body, self._store.uri(key))

    def require(self, model: str, version: int) -> Manifest:
        """The version's manifest.

        :raises InputMissingError: the version was never published.
        """
        manifest = self.manifest(model, version)
        if manifest is None:
            raise InputMissingError(
                f"version {version} of {model!r} is not published",
                expected=self._store.uri(repository_paths(model, version).manifest),
                found="none",
                remedy="release the version first",
            )
        return manifest

    def publish(self, manifest: Manifest, sources: Mapping[str, bytes | StoredSource], golden: str) -> bool:
        """Writes every file, checks it where it now lies, then writes the manifest.

        :param sources: where each of the manifest's files comes from, by its path.
        :param golden: key of the golden set, which is kept beside the repository for later validations.
        :return: whether anything was written; False: these very bytes were published before.
        :raises VersionConflictError: other bytes are published under this version.
        """
        published = self.manifest(manifest.model, manifest.version)
        if published is None:
            paths = _paths(manifest)
            for path, source in sources.items():
                self._place(paths.repository + path, source, manifest.files[path])
            self._place(golden_key(manifest), StoredSource(golden), manifest.source.files[GOLDEN_FILE])
            if self._store.write_once(paths.manifest, manifest.to_bytes()):
                return True
            published = self.require(manifest.model, manifest.version)
        require_same_content(published, manifest)
        return False

    def config_text(self, manifest: Manifest) -> str:
        """The version's config.pbtxt, checked against its manifest."""
        paths = _paths(manifest)
        return self._read(paths.repository + paths.config_file, manifest.files[paths.config_file]).decode()

    def config_texts(self, manifest: Manifest) -> dict[str, str]:
        """The config.pbtxt of each model of the version by the model's name, checked against its manifest."""
        repository = _paths(manifest).repository
        return {
            name: self._read(repository + path, manifest.files[path]).decode()
            for name, path in config_files(manifest.files).items()
        }

    def golden_set(self, manifest: Manifest) -> bytes:
        """The version's golden set (npz), checked against its manifest."""
        return self._read(golden_key(manifest), manifest.source.files[GOLDEN_FILE])

    def copy_to_staging(self, manifest: Manifest, name: str) -> None:
        """Copies the version's model folders to the staging server's repository, checked against the manifest.

        :param name: what the model is called there; an ensemble's members are named after it.
        """
        for prefix in staged_prefixes(name):
            for entry in self._store.entries(prefix):
                self._store.delete(entry.key)
        for path, expected in manifest.files.items():
            source = _paths(manifest).repository + path
            self._require_intact(source, expected)
            self._store.copy(source, staged_key(path, name, manifest.model))

    def _read(self, key: str, expected: FileEntry) -> bytes:
        body = self._store.require(key, remedy="the published version is damaged: release a new version")
        if FileEntry.of(body) != expected:
            raise self._damaged(key, expected, FileEntry.of(body))
        return body

    def _place(self, key: str, source: bytes | StoredSource, expected: FileEntry) -> None:
        if isinstance(source, bytes):
            self._store.write(key, source)
        else:
            self._store.copy(source.key, key)
        self._require_intact(key, expected)

    def _require_intact(self, key: str, expected: FileEntry) -> None:
        sha256, size_bytes = self._store.sha256(key)
        found = FileEntry(sha256=sha256, size_bytes=size_bytes)
        if found != expected:
            raise self._damaged(key, expected, found)

    def _damaged(self, key: str, expected: FileEntry, found: FileEntry) -> VersionConflictError:
        return VersionConflictError(
            f"{self._store.uri(key)} is not the file that its manifest names",
            expected=f"{expected.size_bytes} bytes, SHA-256 {expected.sha256}",
            found=f"{found.size_bytes} bytes, SHA-256 {found.sha256}",
            remedy="find out who wrote to this prefix; release the model under a new version",
        )


def golden_key(manifest: Manifest) -> str:
    """Where a version's golden set is kept."""
    return f"{_paths(manifest).root}{GOLDEN_FILE}"


def _paths(manifest: Manifest) -> RepositoryPaths:
    return repository_paths(manifest.model, manifest.version)
