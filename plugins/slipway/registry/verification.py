"""Reading a published version again: is it still what was published?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from slipway.concurrency import map_concurrently
from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey
from slipway_core.bucket_layout import RepositoryPaths, repository_paths
from slipway_core.errors import (
    InputMissingError,
    SignedWithoutIdentityError,
    SigningRefusedError,
    SlipwayError,
    TransientError,
    UserError,
    VersionConflictError,
    VersionDeletedError,
)
from slipway_core.publishing.manifest import GOLDEN_FILE, FileEntry, Manifest, attachment
from slipway_core.publishing.publication import DECISION_FILE, placed_files
from slipway_core.triton_config.ensemble import bundle_config_sha256
from slipway_rules.version_manifest import MANIFEST_FILE

WORKERS = 8


@dataclass(frozen=True)
class FileDifference:
    """One thing in which a version differs from what its manifest says; `key` is without the bucket."""

    key: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.key}: expected {self.expected}; found {self.found}"


def verify_version(
    store: ModelStoreHook, model: str, version: int, key: SigningKey | None = None, *, workers: int = WORKERS
) -> list[FileDifference]:
    """Read every byte of a published version and say what differs; nothing, if it is what was published.

    Files are read as streams: memory does not depend on their size.

    :param key: the key that must have signed it; None: no signature is demanded.
    :param workers: how many files are read at once.
    :raises InputMissingError: the version was never published.
    :raises VersionDeletedError: it was, and deleted.
    :raises StoreUnavailableError: it could not be read.
    """
    registry, paths = ModelRegistry(store), repository_paths(model, version)
    try:
        manifest = registry.require(model, version)
    except (InputMissingError, VersionDeletedError):
        raise
    except VersionConflictError as error:
        return [
            FileDifference(paths.manifest, error.expected or "its own manifest", error.found or error.what)
        ]
    except UserError as error:
        return [FileDifference(paths.manifest, "a manifest", str(error))]
    expected = dict(placed_files(manifest))
    golden = attachment(manifest, GOLDEN_FILE)
    if golden is not None:
        expected[GOLDEN_FILE] = golden
    there = store.entries(paths.root)
    findings = [
        *_files(paths.root, expected, there, partial(_read_entry, store), workers),
        *_extra(paths.root, {*expected, MANIFEST_FILE, DECISION_FILE}, there, besides=paths.evidence),
    ]
    if not findings:
        findings += _configuration(registry, paths, manifest)
    if key is not None:
        findings += _signature(registry, paths, manifest, key)
    return findings


def require_published_repository(
    store: ModelStoreHook,
    model: str,
    version: int,
    key: SigningKey | None,
    *,
    read: bool = True,
    workers: int = WORKERS,
) -> tuple[str, ...]:
    """Require that the version's repository holds the published files and no others, signed with the key.

    An inference server downloads the repository as it lies there, long after it was published and staged, and each
    later pod downloads it anew: this look says what lies there now, and nothing of what lies there then. What holds
    afterwards is the bucket's policy, and the container that verifies before Triton starts
    (docs/bring-your-model.md).
    The digests are the store's own, which it computed of the bytes that it holds.

    :param key: None: no signature is demanded.
    :param read: read a file of which the store keeps no digest; False: only its size is compared.
    :param workers: how many files are looked at at once.
    :return: the keys of the files of which only the size was compared.
    :raises SigningRefusedError: it is not signed with the key, or not what was signed.
    :raises SignedWithoutIdentityError: it holds the published files and no others, the key has signed them, but not
        their manifest, which says whose they are: it was published before manifests were signed.
    :raises VersionConflictError: no signature is demanded, and it is not what was published.
    :raises InputMissingError: the version was never published.
    """
    registry, paths = ModelRegistry(store), repository_paths(model, version)
    manifest = registry.require(model, version)
    older = None if key is None else _signed_without_identity(registry, manifest, key)
    unread: list[str] = []

    def measure(name: str, expected: FileEntry) -> FileEntry:
        facts = store.stat(name)
        if facts is not None and facts.sha256 is not None:
            return FileEntry(sha256=facts.sha256, size_bytes=facts.size_bytes)
        if read or facts is None:
            return _read_entry(store, name, expected)
        unread.append(name)
        return FileEntry(sha256=expected.sha256, size_bytes=facts.size_bytes)

    there = store.entries(paths.repository)
    findings = [
        *_files(paths.repository, manifest.files, there, measure, workers),
        *_extra(paths.repository, set(manifest.files), there),
    ]
    if findings:
        refusal, what = (
            (VersionConflictError, "published") if key is None else (SigningRefusedError, "signed")
        )
        raise refusal(
            f"the repository of version {version} of {model!r} is not what was {what}",
            expected=f"{store.uri(findings[0].key)}: {findings[0].expected}",
            found=findings[0].found + (f"; and {len(findings) - 1} more" if findings[1:] else ""),
            remedy="find out who wrote to this prefix; release the model under a new version",
        )
    if older is not None:
        raise older
    return tuple(sorted(unread))


def _signed_without_identity(
    registry: ModelRegistry, manifest: Manifest, key: SigningKey
) -> SignedWithoutIdentityError | None:
    """None where the key has signed the manifest; the error where it has signed the files alone.

    :raises SigningRefusedError: it has signed neither.
    """
    try:
        registry.require_signed(manifest, key)
    except SignedWithoutIdentityError as error:
        return error
    return None


def _read_entry(store: ModelStoreHook, key: str, expected: FileEntry) -> FileEntry:
    """Read what lies there."""
    sha256, size_bytes = store.sha256(key)
    return FileEntry(sha256=sha256, size_bytes=size_bytes)


def _files(
    prefix: str,
    expected: Mapping[str, FileEntry],
    there: Sequence[StoredObject],
    measure: Callable[[str, FileEntry], FileEntry],
    workers: int,
) -> list[FileDifference]:
    """Return the files that are missing or changed."""
    keys = {entry.key for entry in there}

    def look(path: str) -> FileDifference | None:
        key, entry = prefix + path, expected[path]
        if key not in keys:
            return FileDifference(key, _text(entry), "no object")
        found = measure(key, entry)
        return None if found == entry else FileDifference(key, _text(entry), _text(found))

    return [finding for finding in map_concurrently(look, sorted(expected), workers) if finding is not None]


def _extra(
    prefix: str, expected: Set[str], there: Sequence[StoredObject], *, besides: str | None = None
) -> list[FileDifference]:
    """Return what lies below the prefix and nobody published; `besides`: a prefix below it that others write to."""
    return [
        FileDifference(entry.key, "no object", f"{entry.size_bytes} bytes")
        for entry in there
        if entry.key.removeprefix(prefix) not in expected
        and not (besides is not None and entry.key.startswith(besides))
    ]


def _configuration(
    registry: ModelRegistry, paths: RepositoryPaths, manifest: Manifest
) -> list[FileDifference]:
    """Return whether the config.pbtxt of each model means what was published."""
    key = paths.repository + paths.config_file
    try:
        found = bundle_config_sha256(registry.configs(manifest))
    except TransientError:
        raise
    except SlipwayError as error:
        return [FileDifference(key, "a configuration that Triton reads", str(error))]
    if found == manifest.config_sha256:
        return []
    return [FileDifference(key, f"canonical hash {manifest.config_sha256}", f"canonical hash {found}")]


def _signature(
    registry: ModelRegistry, paths: RepositoryPaths, manifest: Manifest, key: SigningKey
) -> list[FileDifference]:
    try:
        registry.require_signed(manifest, key)
    except (SigningRefusedError, SignedWithoutIdentityError) as error:
        return [
            FileDifference(
                f"{paths.root}model.sig", error.expected or "a signature", error.found or error.what
            )
        ]
    except TransientError:
        raise
    except SlipwayError as error:
        return [FileDifference(f"{paths.root}model.sig", "a signature", str(error))]
    return []


def _text(entry: FileEntry) -> str:
    return f"{entry.size_bytes} bytes, SHA-256 {entry.sha256}"
