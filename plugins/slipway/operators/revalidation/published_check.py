"""Is what lies in the bucket still what was published, and do the live servers use the published configuration?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.golden_asking import LiveServer
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import signing_key_of
from slipway.registry.verification import verify_version
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import InputMissingError, VersionDeletedError
from slipway_core.operations.revalidation.report import (
    CheckResult,
    differs,
    passed,
)
from slipway_core.publishing.manifest import Manifest
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.triton_config.ensemble import bundle_config_sha256
from slipway_core.triton_config.served import comparable, served_differences
from slipway_core.written_numbers import counted


def check_published(
    store: ModelStoreHook, spec: ReleaseSpec, version: int, promoted_sha256: str
) -> CheckResult:
    """Read every byte of the version, and hold it against its manifest, its signature and its record.

    :param promoted_sha256: digest of the manifest with which the record shows it promoted; "": the record has none.
    :raises SlipwayError: it could not be read.
    """
    key = signing_key_of(spec)
    try:
        found = [str(one) for one in verify_version(store, spec.model, version, key)]
        digest, _ = store.sha256(repository_paths(spec.model, version).manifest)
    except (InputMissingError, VersionDeletedError) as error:
        return differs("published", f"version {version} is live but not published: {error}", [error.what])
    signed = "" if key is None else ", and the manifest is signed with the release file's key"
    if promoted_sha256 not in ("", digest):
        found.append(
            f"manifest.json: expected SHA-256 {promoted_sha256}, which was promoted; found SHA-256 {digest}"
        )
    if not found:
        return passed("published", f"every file is what the manifest says{signed}")
    summary = f"{counted(len(found), 'object')} changed since publishing, first {found[0].partition(': ')[0]}"
    return differs("published", summary, found)


def check_configuration(
    server: LiveServer, registry: ModelRegistry, manifest: Manifest, reads: int
) -> CheckResult:
    """Ask the live servers for their configuration and hold it against the manifest's hash.

    Behind a load balancer each read may meet another server: one that departs is enough.

    :param reads: how often they are asked.
    :raises SlipwayError: they, or the published configuration, could not be read.
    """
    published = registry.configs(manifest)
    found: set[str] = set()
    for _ in range(reads):
        found |= set(_departures(server, published, manifest))
    if not found:
        summary = f"{reads} reads of the live servers' configuration give the manifest's canonical hash"
        return passed("configuration", summary, reads=reads)
    summary = f"a live server uses another configuration than the published one: {sorted(found)[0]}"
    return differs("configuration", summary, found, reads=reads)


def _departures(
    server: LiveServer, published: Mapping[str, Mapping[str, Any]], manifest: Manifest
) -> list[str]:
    wanted = {name: dict(config) for name, config in published.items()}
    served = {name: comparable(server.config(name), wanted=config) for name, config in wanted.items()}
    ready = [str(version) for version in server.metadata(manifest.model).get("versions") or ()]
    found = [f"{name}: {one}" for name in wanted for one in served_differences(wanted[name], served[name])]
    if ready != [str(manifest.version)]:
        found.append(f"the versions that are ready are {', '.join(ready) or 'none'}")
    digest = bundle_config_sha256(served)
    if not found and digest != manifest.config_sha256:
        found.append(f"the canonical hash is {digest} instead of {manifest.config_sha256}")
    return found
