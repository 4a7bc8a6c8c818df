"""Publish versions in tests, and see what publishing leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import HealthCheck, settings

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry, StoredSource
from slipway.registry.signing import sign
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_rules.pod_files import SBOM_FILE
from tests.support.examples import examples
from tests.support.store.publication import Publication
from tests.support.store.signing_keys import new_key

Prepare = Callable[..., Publication]
KEY = new_key()
CONFIG = b'name: "digits"'
patient = settings(
    max_examples=examples(5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def prepared(prepare: Prepare, version: int, **changes: Any) -> Publication:
    """A version whose configuration can be read."""
    one = prepare(version, config=CONFIG, **changes)
    digest = config_sha256(from_pbtxt(CONFIG.decode()))
    return Publication(one.manifest.model_copy(update={"config_sha256": digest}), one.sources, one.golden)


def publish(store: ModelStoreHook, one: Publication, workers: int = 1, **options: Any) -> bool:
    """Publish by one worker, so that requests have an order."""
    return ModelRegistry(store, workers=workers).publish(one.manifest, one.sources, one.golden, **options)


def attachments(one: Publication) -> dict[str, Any]:
    """What is published with the repository: a signature, which is another each time, and a list of packages."""
    return {"sign": partial(sign, key=KEY), "attachments": {SBOM_FILE: StoredSource(one.golden)}}


def left_over(store: ModelStoreHook, version: int) -> list[str]:
    """What lies in work/ for publishing alone."""
    return [entry.key for entry in store.entries(f"work/digits/{version}/publish/")]


def held() -> None:
    """The model's lock is still held: what a deletion asks before it begins."""
