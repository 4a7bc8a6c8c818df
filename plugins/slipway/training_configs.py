"""The config.pbtxt files that training has left: looked at when a release is admitted, before a pod runs for it."""

from __future__ import annotations

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import repository_paths
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.serving.sequences import as_released, require_no_sequences
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import SIZE_LIMIT, from_pbtxt
from slipway_rules.version_manifest import CONFIG_FILE

# None is larger that people write; what is, is looked at when it is published.
_LARGEST_BYTES = 2**20


def require_stateless_source(store: ModelStoreHook, spec: ReleaseSpec, version: int) -> None:
    """Returns when no configuration that lies in ``incoming/`` is of a model with a state between requests.

    Those in an archive are seen when they are published.

    :raises ModelInvalidError: one is, or is no configuration.
    """
    require_no_sequences(
        {
            name: as_released(config, spec.serving) if name == spec.model else config
            for name, config in training_configs(store, spec, version).items()
        }
    )


def training_configs(store: ModelStoreHook, spec: ReleaseSpec, version: int) -> dict[str, Config]:
    """The configurations by the models' names: that beside a model, or those of a repository."""
    incoming, source = repository_paths(spec.model, version).incoming, spec.source
    root = incoming + (source.location if source.is_folder else "")
    found: dict[str, Config] = {}
    for entry in store.entries(root):
        folder, _, name = entry.key.removeprefix(root).rpartition("/")
        beside = folder == "" or (source.is_folder and "/" not in folder)
        if name != CONFIG_FILE or not beside or entry.size_bytes > _LARGEST_BYTES:
            continue
        body = store.require(entry.key, remedy="let training write it, as a new version")
        found[folder or spec.model] = from_pbtxt(body, store.uri(entry.key))
    return found


def config_of_training(store: ModelStoreHook, incoming_prefix: str) -> Config | None:
    """The config.pbtxt that training may leave beside a model of one file; None where it left none.

    :raises ModelInvalidError: it is no configuration.
    :raises UserError: it is larger than a configuration may be.
    """
    key = incoming_prefix + CONFIG_FILE
    text = store.read(key, most_bytes=SIZE_LIMIT)
    return None if text is None else from_pbtxt(text, store.uri(key))
