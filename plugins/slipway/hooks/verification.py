"""Reading a published version again: is it still what was published?"""

from __future__ import annotations

from dataclasses import dataclass

from include.model_release.errors import SigningRefusedError, SlipwayError
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
    findings = [*_files(store, paths, manifest), *_extra(store, paths, manifest)]
    if not findings:
        findings += _configuration(registry, paths, manifest)
    if key is not None:
        findings += _signature(registry, paths, manifest, key)
    return findings


def _files(store: ModelStoreHook, paths: RepositoryPaths, manifest: Manifest) -> list[Finding]:
    """Files that are missing or changed."""
    expected = dict(placed_files(manifest))
    golden = attachment(manifest, GOLDEN_FILE)
    if golden is not None:
        expected[GOLDEN_FILE] = golden
    there = {entry.key for entry in store.entries(paths.root)}
    findings = []
    for path, entry in sorted(expected.items()):
        key = paths.root + path
        if key not in there:
            findings.append(Finding(key, _text(entry), "no object"))
            continue
        sha256, size_bytes = store.sha256(key)
        found = FileEntry(sha256=sha256, size_bytes=size_bytes)
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
    except SlipwayError as error:
        return [Finding(f"{paths.root}model.sig", "a signature", str(error))]
    return []


def _text(entry: FileEntry) -> str:
    return f"{entry.size_bytes} bytes, SHA-256 {entry.sha256}"
