"""A published version in the model repository of a fleet, whose servers read it from the bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway_core.bucket_layout import staged_model
from slipway_core.errors import UserError
from slipway_core.fleet.alias import LoadedVersion
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import to_pbtxt
from slipway_core.triton_config.staged_paths import names_files
from slipway_rules.version_manifest import CONFIG_FILE

_MARK_LIMIT_BYTES = 4096


def repository_prefix(fleet: str) -> str:
    """Return where the servers' model repository lies; they are started with it."""
    return f"fleets/{fleet}/repository/"


def place(
    store: ModelStoreHook,
    fleet: str,
    manifest: Manifest,
    wanted: LoadedVersion,
    published: Mapping[str, Config],
) -> bool:
    """Copy a version to where the fleet's servers find it; return whether anything was copied.

    What lies there already is left untouched: a server that sees newer files would load them again when its alias is
    changed. It is held against the manifest: all servers load these files, and would answer alike with wrong ones.

    :raises InputMissingError: a file that was laid there is gone.
    :raises VersionConflictError: one is another file by now.
    :raises UserError: its models name files by absolute paths, which are another server's.
    """
    if names_files(published):
        raise UserError(
            f"version {wanted.version} of {wanted.model!r} names its files by absolute paths",
            expected="a model whose server finds the files in the model's folder",
            remedy="put it into the servers' own repositories, with the paths that are right there (place_versions: "
            "false)",
        )
    mark = f"fleets/{fleet}/placed/{wanted.name}.json"
    content = json.dumps({"manifest_sha256": wanted.manifest_sha256}).encode()
    prefix, registry = repository_prefix(fleet), ModelRegistry(store)
    configs = {
        f"{prefix}{name}/{CONFIG_FILE}": to_pbtxt(config).encode() for name, config in wanted.configs.items()
    }

    def key_of(path: str) -> str:
        owner, _, rest = path.partition("/")
        return f"{prefix}{staged_model(wanted.model, owner, wanted.name)}/{rest}"

    if store.read(mark, most_bytes=_MARK_LIMIT_BYTES) == content:
        copied = {key_of(path): entry for path, entry in manifest.files.items()}
        registry.require_copies(copied | {key: FileEntry.of(body) for key, body in configs.items()})
        return False
    registry.copy_models(manifest, key_of)
    for key, body in configs.items():
        store.write(key, body)
    store.write(mark, content)
    return True
