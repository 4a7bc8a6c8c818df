"""A published version, downloaded: its manifest's files, each of them checked while it is written, and no others."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from slipway_pod.errors import PodError
from slipway_pod.program.supervision import Progress
from slipway_pod.storage.placing import writing_errors
from slipway_pod.storage.s3 import Store
from slipway_pod.verification.signature import require_signed
from slipway_pod.verification.version_manifest import REMEDY, FileEntry, Manifest, Version, parse_manifest
from slipway_rules.version_manifest import (
    MANIFEST_FILE,
    MANIFEST_LIMIT_BYTES,
    SIGNATURE_FILE,
    SIGNATURE_LIMIT_BYTES,
)


def download(
    store: Store,
    version: Version,
    keys: list[Any],
    folder: Path,
    progress: Progress,
    workers: int,
    manifest_sha256: str = "",
) -> Manifest:
    """Write the version's files to a folder, each of them checked.

    :param keys: of which one must have signed the version; none where no signature is demanded.
    :param manifest_sha256: the digest that the manifest must have; empty: any.
    """
    manifest = check(store, version, keys, manifest_sha256)
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(fetch, store, f"{version.source}/{path}", folder / path, entry, progress)
            for path, entry in manifest.files.items()
        ]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return manifest


def check(store: Store, version: Version, keys: list[Any], manifest_sha256: str = "") -> Manifest:
    """Return the version's manifest, if it is its own and signed as demanded, and its files are there."""
    place = f"{version.root}/{MANIFEST_FILE}"
    document = store.read(place, MANIFEST_LIMIT_BYTES)
    if manifest_sha256 and (found := hashlib.sha256(document).hexdigest()) != manifest_sha256:
        what, texts = f"{place} is not the manifest of this release", (manifest_sha256, found)
        expected, other = (f"SHA-256 {text}" for text in texts)
        raise PodError("VersionConflictError", what, expected=expected, found=other, remedy=REMEDY)
    manifest = parse_manifest(document, version)
    if keys:
        entry = manifest.signature
        if entry is None:
            what = f"{version} is not signed"
            raise PodError("SigningRefusedError", what, expected="a signature", found="none", remedy=REMEDY)
        place = f"{version.root}/{SIGNATURE_FILE}"
        bundle = store.read(place, min(entry.size_bytes, SIGNATURE_LIMIT_BYTES))
        if measured(bundle) != entry:
            refuse(place, entry, measured(bundle))
        require_signed(version, manifest, bundle, keys)
    require_the_files(store, version, manifest)
    return manifest


def require_the_files(store: Store, version: Version, manifest: Manifest) -> None:
    """Require that the repository holds the manifest's files, in their sizes, and no others."""
    there = store.sizes(version.source, most=len(manifest.files) + 1)
    wanted = {path: entry.size_bytes for path, entry in manifest.files.items()}
    for path in sorted(there.keys() ^ wanted.keys()):
        expected, found = ("no object", "one") if path in there else ("an object", "none")
        what = f"{version.source}/{path[:200]} is not as its manifest has it"
        raise PodError("VersionConflictError", what, expected=expected, found=found, remedy=REMEDY)
    for path, size_bytes in there.items():
        if size_bytes != wanted[path]:
            what = f"{version.source}/{path} is not as its manifest has it"
            expected, found = f"{wanted[path]} bytes", f"{size_bytes} bytes"
            raise PodError("VersionConflictError", what, expected=expected, found=found, remedy=REMEDY)


def fetch(store: Store, url: str, target: Path, expected: FileEntry, progress: Progress) -> None:
    """Write a file and check it while it arrives; one byte too many is an error."""
    digest, size_bytes = hashlib.sha256(), 0
    progress.tick()
    with writing_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    with file:
        for piece in store.pieces(url, expected.size_bytes):
            progress.tick()
            size_bytes += len(piece)
            if size_bytes > expected.size_bytes:
                break
            digest.update(piece)
            with writing_errors(target.parent):
                file.write(piece)
    found = FileEntry(size_bytes, digest.hexdigest())
    if found != expected:
        refuse(url, expected, found)


def measured(content: bytes) -> FileEntry:
    """Return size and digest of what was read."""
    return FileEntry(len(content), hashlib.sha256(content).hexdigest())


def refuse(url: str, expected: FileEntry, found: FileEntry) -> NoReturn:
    """Raise the PodError for a file that is not what was published."""
    texts = [f"{entry.size_bytes} bytes, SHA-256 {entry.sha256}" for entry in (expected, found)]
    what = f"{url} is not what was published"
    raise PodError("VersionConflictError", what, expected=texts[0], found=texts[1], remedy=REMEDY)
