"""A version that is published already is not made again: its bytes could not be the same, and need not be."""

from __future__ import annotations

import logging

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.publisher import read_decision
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey
from slipway.registry.verification import verify_version
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import InputMissingError, VersionConflictError
from slipway_core.intake import IncomingVersion, parse_ready
from slipway_core.publishing.build_fingerprint import RECIPE_FILE, other_files, recipe_bytes
from slipway_core.publishing.manifest import FileEntry, Manifest, attachment
from slipway_rules.version_manifest import CONFIG_FILE

log = logging.getLogger(__name__)


def reusable(store: ModelStoreHook, release_run: ReleaseRun) -> Manifest | None:
    """Return the version's manifest, if it is published from the files in incoming/ as the release file says.

    None otherwise, and for a version of which neither is known: it is converted, and publishing then says whether
    it is the same. A version that was decided on but not finished counts as published.

    :param release_run: of the whole conversion, not of one of its variants.
    """
    manifest = decided_manifest(store, release_run.model, release_run.version)
    if manifest is None:
        return None
    published = f"version {release_run.version} of {release_run.model!r} is published"
    paths = repository_paths(release_run.model, release_run.version)
    if attachment(manifest, RECIPE_FILE) != FileEntry.of(recipe_for(store, release_run)):
        log.info("%s, but the release file now makes it differently: converting it again", published)
        return None
    ready = parse_ready(
        store.require(paths.ready, remedy="let training write it, as the last file"),
        IncomingVersion(release_run.model, release_run.version),
    )
    listed = {
        entry.key.removeprefix(paths.incoming): entry.size_bytes for entry in store.entries(paths.incoming)
    }

    def sha256(name: str) -> str:
        facts = store.stat(paths.incoming + name)
        known = None if facts is None else facts.sha256
        # Without S3's own digest training's word is enough to know which files are meant.
        return known or ready.files.get(name) or store.sha256(paths.incoming + name)[0]

    other = other_files(manifest.source, release_run.spec, ready, listed, sha256)
    if other:
        log.info("%s, but from other files (%s): converting it again", published, ", ".join(other))
        return None
    return manifest


def already_published(store: ModelStoreHook, release_run: ReleaseRun) -> str | None:
    """Return why there is nothing to convert or to choose; None where there is something."""
    manifest = reusable(store, release_run)
    if manifest is None:
        return None
    return (
        f"version {manifest.version} is already published from these files, and is released unchanged (content "
        f"{manifest.content_digest()})"
    )


def recipe_for(store: ModelStoreHook, release_run: ReleaseRun) -> bytes:
    """Return what the release file, and a config.pbtxt of training beside one file, say of how the version is made."""
    beside = (
        None if release_run.spec.source.is_folder else store.read(release_run.incoming_prefix + CONFIG_FILE)
    )
    return recipe_bytes(release_run.spec, beside)


def decided_manifest(store: ModelStoreHook, model: str, version: int) -> Manifest | None:
    """Return the manifest that the version has, or will have when whoever publishes it next has finished."""
    published = ModelRegistry(store).manifest(model, version)
    if published is not None:
        return published
    decision = read_decision(store, repository_paths(model, version))
    return None if decision is None else decision.manifest


def require_published(store: ModelStoreHook, release_run: ReleaseRun, key: SigningKey | None) -> Manifest:
    """Finish what was decided on, if need be, then read every file of the version and hold it against its manifest.

    :param key: the key that must have signed it; None: no signature is demanded.
    :raises InputMissingError: nothing is published, nor decided on.
    :raises VersionConflictError: a file is missing, changed or one too many.
    :raises SigningRefusedError: the signature is missing or another key's.
    """
    registry, golden = ModelRegistry(store), release_run.incoming_prefix + release_run.spec.source.golden_file
    manifest = decided_manifest(store, release_run.model, release_run.version)
    if manifest is None:
        raise InputMissingError(
            f"nothing was converted, and version {release_run.version} of {release_run.model!r} is not published",
            expected="a conversion, or a published version",
            found="neither",
            remedy="clear `prepare.convert` and what comes after it, and run it again",
        )
    registry.publish(manifest, {}, golden, settings=release_run.spec.publish)
    found = verify_version(store, release_run.model, release_run.version)
    if found:
        raise VersionConflictError(
            f"version {release_run.version} of {release_run.model!r} has changed since it was published",
            expected="every file as its manifest has it",
            found="; ".join(str(one) for one in found),
            remedy="restore the files from the bucket's versions, or release the model under a new number",
        )
    if key is not None:
        registry.require_signed(manifest, key)
    return manifest
