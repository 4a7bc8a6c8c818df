"""The golden set of a published version, as gates and the golden replay send it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.model_release.gates.validation.golden_set import GoldenSet, golden_from_arrays
from include.model_release.gates.validation.npz import read_arrays
from include.model_release.gates.validation.request_options import optional_inputs
from include.model_release.publishing.manifest import GOLDEN_FILE, Manifest
from include.model_release.spec.validation import Validation
from slipway.registry.registry import ModelRegistry


def load_golden_set(
    registry: ModelRegistry, manifest: Manifest, validation: Validation, config: Mapping[str, Any]
) -> GoldenSet:
    """Return the version's golden set, checked against its manifest and its model's signature.

    :param validation: names the column of the labels, and the kind of answer.
    :param config: the model's configuration, which says which inputs a request may leave out.
    :raises InputMissingError: the version has no golden set.
    :raises GoldenSetError: it cannot be read, or does not fit the model.
    :raises VersionConflictError: it is not the file that the manifest names.
    """
    return golden_from_arrays(
        read_arrays(registry.golden_set(manifest), GOLDEN_FILE),
        manifest.signature,
        validation.label,
        kind=validation.kind,
        optional=optional_inputs(config),
    )
