"""What clients meet of the stable version and of the candidate, from whoever can tell it of both.

The server says, where both are on staging. A stable version that is not there has its manifest, and one that Slipway
has not published has the configuration that its servers were given. If they are unknown, the gate does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.staging import StagedModel, Staging
from slipway.operators.validation.asking import streams
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import SignatureInconclusiveError, UserError
from slipway_core.gates.validation.request_options import is_decoupled, optional_inputs
from slipway_core.gates.validation.signature import ServedTensors
from slipway_core.publishing.manifest import Manifest
from slipway_core.tensors import ModelSignature
from slipway_core.triton_config.build import served_signature
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import SIZE_LIMIT, from_pbtxt
from slipway_rules.version_manifest import config_files


def sides_of(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    hook: TritonHook,
    staging: Staging,
    manifest: Callable[[], Manifest],
) -> tuple[ServedTensors, ServedTensors] | None:
    """Return the tensors of the stable version and of the candidate; None where nothing of the model is live yet.

    :param manifest: reads the candidate's.
    :raises SignatureInconclusiveError: the tensors of the stable version are unknown.
    """
    if release_run.stable is None:
        return None
    if staging.baseline is not None:
        sides = _on_the_server(hook, staging.baseline), _on_the_server(hook, staging.candidate)
    else:
        registry = ModelRegistry(store)
        published = registry.manifest(release_run.model, release_run.stable.version)
        if published is not None:
            sides = _published(registry, published), _published(registry, manifest())
        else:
            sides = _not_published(store, release_run), _on_the_server(hook, staging.candidate)
    if not sides[0].signature.outputs:
        raise _unknown(release_run, "a server that reports none of its outputs")
    return sides


def _on_the_server(hook: TritonHook, staged: StagedModel) -> ServedTensors:
    """Return the server's word, not the manifest's: it is what clients will meet."""
    signature = hook.signature(staged.name, staged.version)
    return _served(signature, staged.config, is_stream=streams(staged))


def _published(registry: ModelRegistry, manifest: Manifest) -> ServedTensors:
    configs = registry.configs(manifest)
    config = configs.get(manifest.model, {})
    return _served(manifest.signature, config, is_stream=is_decoupled(configs.values()))


def _not_published(store: ModelStoreHook, release_run: ReleaseRun) -> ServedTensors:
    """Return what the configuration says that the live servers were given."""
    try:
        configs = _configurations(store, release_run)
        config = configs.get(release_run.model)
        if config is None:
            raise _unknown(release_run, "neither a manifest nor a config.pbtxt")
        signature = served_signature(config)
        if not signature.inputs or not signature.outputs:  # the server completes it, nobody knows to what
            raise _unknown(release_run, "no manifest, and a config.pbtxt without `input` or `output`")
        return _served(signature, config, is_stream=is_decoupled(configs.values()))
    except UserError as error:
        raise _unknown(release_run, f"no manifest, and {error.in_short()}") from error


def _configurations(store: ModelStoreHook, release_run: ReleaseRun) -> dict[str, Config]:
    """Return the configuration of each model in the stable version's folder, which no manifest vouches for."""
    assert release_run.stable is not None  # noqa: S101  who calls has looked
    prefix = repository_paths(release_run.model, release_run.stable.version).repository
    paths = config_files(entry.key.removeprefix(prefix) for entry in store.entries(prefix))
    remedy = "find out what deletes objects there"
    return {
        name: from_pbtxt(
            store.require(prefix + path, remedy=remedy, most_bytes=SIZE_LIMIT), store.uri(prefix + path)
        )
        for name, path in paths.items()
    }


def _served(signature: ModelSignature, config: Mapping[str, Any], *, is_stream: bool) -> ServedTensors:
    most_rows = int(config.get("max_batch_size", 0))
    return ServedTensors(signature, optional_inputs(config), most_rows, streams=is_stream)


def _unknown(release_run: ReleaseRun, found: str) -> SignatureInconclusiveError:
    assert release_run.stable is not None  # noqa: S101  who calls has looked
    model, version = release_run.model, release_run.stable.version
    return SignatureInconclusiveError(
        f"whether clients of {model} version {version}, which is live, can continue is unknown",
        expected="its tensors, from the staging server, its manifest, or its config.pbtxt with `input` and `output`, "
        f"in {release_run.uri(repository_paths(model, version).root)}",
        found=found,
        remedy="Put back the manifest or the config.pbtxt of the live version; or release the model under another "
        "name, with no version before it.",
    )
