"""The golden set that training has left: looked at when a release is admitted, before a pod runs for it."""

from __future__ import annotations

import logging

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.askable import require_askable
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.spec.release_file import ReleaseSpec

log = logging.getLogger(__name__)

# A larger one is looked at by the converter, which reads it anyway.
_LARGEST_BYTES = 64 * 1024 * 1024


def require_askable_golden_set(store: ModelStoreHook, spec: ReleaseSpec, version: int) -> None:
    """Returns when the golden set fits the release file, as far as that is known without the model.

    One that cannot be read is left to the converter, whose error names it.

    :raises GoldenSetError: the model cannot be asked it; the reason is named.
    """
    key = repository_paths(spec.model, version).incoming + spec.source.golden_file
    facts = store.stat(key)
    if facts is None or facts.size_bytes > _LARGEST_BYTES:
        log.info("the converter checks %s: it is large or missing", store.uri(key))
        return
    content = store.require(key, remedy="let training write it, as a new version")
    try:
        arrays = read_arrays(content, store.uri(key))
    except GoldenSetError as error:
        log.warning("the converter will report what is wrong with it: %s", error)
        return
    require_askable(spec, arrays)
