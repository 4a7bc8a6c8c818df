"""Reading a published version again: is it still what was published?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from include.model_release.errors import SigningRefusedError, SlipwayError, TransientError
from include.model_release.manifest import GOLDEN_FILE, FileEntry, Manifest, attachment
from include.model_release.model_config import config_sha256
from include.model_release.publication import placed_files
from include.model_release.repository import RepositoryPaths, repository_paths
from include.triton_config import from_pbtxt
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.signing import SigningKey
from slipway.hooks.store import ModelStoreHook


@dataclass(frozen=True)
class Finding:
    """One thing in which a version differs from what its manifest says; `key` is without the bucket."""

    key: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.key}: expected {self.expected}; found {self.found}"


def verify_version(
    store: ModelStoreHook, model: str, version: int, key: SigningKey | None = None
) -> list[Finding]:
    """Reads every byte of a published version and says what differs; nothing, if it is what was published.

    :param key: the key that must have signed it; None: no signature is demanded.
    :raises InputMissingError: the version was never published.
    :raises StoreUnavailableError: it could not be read.
    """
    registry, paths = ModelRegistry(store), repository_paths(model, version)
    manifest = registry.require(model, version)
    if (manifest.model, manifest.version) != (model, version):
        named = f"{manifest.model} version {manifest.version}"
        return [Finding(paths.manifest, f"{model} version {version}", named)]
    expected = dict(placed_files(manifest))
    golden = attachment(manifest, GOLDEN_FILE)
    if golden is not None:
        expected[GOLDEN_FILE] = golden
    findings = [*_files(store, paths, expected, _read_entry), *_extra(store, paths, manifest)]
    if not findings:
        findings += _configuration(registry, paths, manifest)
    if key is not None:
        findings += _signature(registry, paths, manifest, key)
    return findings


def require_signed_repository(store: ModelStoreHook, model: str, version: int, key: SigningKey) -> None:
    """Returns when the version is signed with the key, and its repository holds the signed files and no others.

    An inference server downloads the repository as it lies there. The digests are the store's own; only a file of
    which it keeps none is read.

    :raises SigningRefusedError: it is not, or does not.
    :raises InputMissingError: the version was never published.
    """
    registry, paths = ModelRegistry(store), repository_paths(model, version)
    manifest = registry.require(model, version)
    registry.require_signed(manifest, key)
    expected = {f"repository/{path}": entry for path, entry in manifest.files.items()}
    findings = [*_files(store, paths, expected, _stored_entry), *_extra(store, paths, manifest)]
    if findings:
        raise SigningRefusedError(
            f"the repository of version {version} of {model!r} is not what was signed",
            expected=f"{store.uri(findings[0].key)}: {findings[0].expected}",
            found=findings[0].found + (f"; and {len(findings) - 1} more" if findings[1:] else ""),
            remedy="find out who wrote to this prefix; release the model under a new version",
        )


def _read_entry(store: ModelStoreHook, key: str) -> FileEntry:
    """What lies there, read."""
    sha256, size_bytes = store.sha256(key)
    return FileEntry(sha256=sha256, size_bytes=size_bytes)


def _stored_entry(store: ModelStoreHook, key: str) -> FileEntry:
    """What lies there by the store's word, or read where it has none."""
    facts = store.stat(key)
    if facts is None or facts.sha256 is None:
        return _read_entry(store, key)
    return FileEntry(sha256=facts.sha256, size_bytes=facts.size_bytes)


def _files(
    store: ModelStoreHook,
    paths: RepositoryPaths,
    expected: Mapping[str, FileEntry],
    measure: Callable[[ModelStoreHook, str], FileEntry],
) -> list[Finding]:
    """Files that are missing or changed."""
    there = {entry.key for entry in store.entries(paths.root)}
    findings = []
    for path, entry in sorted(expected.items()):
        key = paths.root + path
        if key not in there:
            findings.append(Finding(key, _text(entry), "no object"))
            continue
        found = measure(store, key)
        if found != entry:
            findings.append(Finding(key, _text(entry), _text(found)))
    return findings


def _extra(store: ModelStoreHook, paths: RepositoryPaths, manifest: Manifest) -> list[Finding]:
    """What an inference server would download and nobody published."""
    return [
        Finding(entry.key, "no object", f"{entry.size_bytes} bytes")
        for entry in store.entries(paths.repository)
        if entry.key.removeprefix(paths.repository) not in manifest.files
    ]


def _configuration(registry: ModelRegistry, paths: RepositoryPaths, manifest: Manifest) -> list[Finding]:
    """Whether config.pbtxt means what was published."""
    key = paths.repository + paths.config_file
    try:
        found = config_sha256(from_pbtxt(registry.config_text(manifest)))
    except TransientError:
        raise
    except SlipwayError as error:
        return [Finding(key, "a configuration that Triton reads", str(error))]
    if found == manifest.config_sha256:
        return []
    return [Finding(key, f"canonical hash {manifest.config_sha256}", f"canonical hash {found}")]


def _signature(
    registry: ModelRegistry, paths: RepositoryPaths, manifest: Manifest, key: SigningKey
) -> list[Finding]:
    try:
        registry.require_signed(manifest, key)
    except SigningRefusedError as error:
        return [Finding(f"{paths.root}model.sig", error.expected or "a signature", error.found or error.what)]
    except TransientError:
        raise
    except SlipwayError as error:
        return [Finding(f"{paths.root}model.sig", "a signature", str(error))]
    return []


def _text(entry: FileEntry) -> str:
    return f"{entry.size_bytes} bytes, SHA-256 {entry.sha256}"
